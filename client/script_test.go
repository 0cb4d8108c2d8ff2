package client_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/client"
)

func TestMain(m *testing.M) {
	// The second handler spaces errors by the time of the last one, which it keeps for the process: a test in a bubble,
	// where it is the year 2000, would sleep until the real time of an earlier one.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	goleak.VerifyTestMain(m)
}

var widgetKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}

// request is one request that a script was sent.
type request struct {
	method, path, query string
	header              http.Header
	body                []byte
}

// String is the request line, with the query in a fixed order.
func (r request) String() string {
	if r.query == "" {
		return r.method + " " + r.path
	}
	return r.method + " " + r.path + "?" + r.query
}

// json is the body as compact JSON. A protobuf body is decoded.
func (r request) json(t *testing.T) string {
	t.Helper()
	body := r.body
	if bytes.HasPrefix(body, []byte("k8s\x00")) {
		obj, _, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if body, err = json.Marshal(obj); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := json.Compact(&out, body); err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	return out.String()
}

// script is a server of which a test writes the answers. It keeps the requests.
type script struct {
	mu       sync.Mutex
	requests []request
	answer   func(request) any // JSON text, an error to be a Status or to break the connection, or a value to encode
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	query, err := url.QueryUnescape(r.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	in := request{method: r.Method, path: r.URL.Path, query: query, header: r.Header}
	if r.Body != nil {
		defer r.Body.Close()
		if in.body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	s.requests = append(s.requests, in)
	s.mu.Unlock()
	return respond(r, s.answer(in))
}

func respond(r *http.Request, answer any) (*http.Response, error) {
	code, body := http.StatusOK, []byte(nil)
	switch answer := answer.(type) {
	case apierrors.APIStatus:
		status := answer.Status()
		status.Kind, status.APIVersion = "Status", "v1"
		code = int(status.Code)
		body, _ = json.Marshal(status)
	case error:
		return nil, answer
	case string:
		body = []byte(answer)
	default:
		var err error
		if body, err = json.Marshal(answer); err != nil {
			return nil, err
		}
	}
	return &http.Response{
		StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}, nil
}

// take returns the requests since it was last called.
func (s *script) take() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	requests := s.requests
	s.requests = nil
	return requests
}

// one returns the only request since the last take.
func (s *script) one(t *testing.T) request {
	t.Helper()
	requests := s.take()
	if len(requests) != 1 {
		t.Fatalf("want one request, got %v", requests)
	}
	return requests[0]
}

// scripted returns a client without cache for a script. The option may change its configuration.
func scripted(t *testing.T, answer func(request) any, options ...func(*client.Config)) (*client.Client, *script) {
	t.Helper()
	s := &script{answer: answer}
	cfg := client.Config{
		REST:       &rest.Config{Host: "http://server.test"},
		HTTP:       &http.Client{Transport: s},
		Mapper:     testMapper(),
		FieldOwner: "me",
		Logger:     slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	for _, option := range options {
		option(&cfg)
	}
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c, s
}

func testMapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for gvk := range clientgoscheme.Scheme.AllKnownTypes() {
		if strings.HasSuffix(gvk.Kind, "List") || strings.HasSuffix(gvk.Kind, "Options") || gvk.Version == "__internal" {
			continue
		}
		scope := meta.RESTScope(meta.RESTScopeNamespace)
		switch gvk.Kind {
		case "Node", "Namespace", "SubjectAccessReview", "TokenReview":
			scope = meta.RESTScopeRoot
		}
		m.Add(gvk, scope)
	}
	m.Add(widgetKind, meta.RESTScopeNamespace)
	return m
}

// with answers every request the same.
func with(answer any) func(request) any { return func(request) any { return answer } }

func key(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var errBroken = fmt.Errorf("connection broke: %w", io.ErrUnexpectedEOF)
