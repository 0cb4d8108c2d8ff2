package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/cache"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/internal/apitest"
)

// line is the line between client and server, on which answers are lost and watches lag.
type line struct {
	*apitest.Server
	mu       sync.Mutex
	released chan struct{}       // closed: watches go on
	cut      bool                // watches cannot be opened
	lose     int                 // so many answers to writes are lost
	admit    func([]byte) []byte // changes the bodies of patches on their way, as defaulting does
	act      func() any          // does what a POST to a subresource asks for, and answers
	requests []string
}

// hold makes all watches silent until release.
func (l *line) hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if isClosed(l.released) {
		l.released = make(chan struct{})
	}
}

func (l *line) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !isClosed(l.released) {
		close(l.released)
	}
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (l *line) set(change func(*line)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(l)
}

// take returns the requests since it was last called: "get configmaps default/web". Watches and discovery are left out.
func (l *line) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	requests := l.requests
	l.requests = nil
	return requests
}

func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	watching := r.URL.Query().Has("watch")
	l.mu.Lock()
	cut, lost := l.cut, false
	if r.Method != http.MethodGet && l.lose > 0 {
		l.lose--
		lost = true
	}
	l.mu.Unlock()
	if watching && cut {
		return nil, errBroken
	}
	if l.admit != nil && r.Method == http.MethodPatch {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(l.admit(body)))
	}
	before := l.at(r.URL.Path)
	var resp *http.Response
	var err error
	if l.act != nil && r.Method == http.MethodPost {
		resp, err = respond(r, l.act())
	} else {
		resp, err = l.Server.RoundTrip(r)
	}
	for _, request := range l.Server.Requests() {
		if request.Verb != "watch" && request.Verb != "discover" {
			l.mu.Lock()
			l.requests = append(l.requests, request.String())
			l.mu.Unlock()
		}
	}
	switch {
	case err != nil:
		return nil, err
	case lost:
		return nil, errBroken
	case watching:
		resp.Body = &heldBody{resp.Body, l, r.Context()}
	case r.Method != http.MethodGet:
		return l.asServersAnswer(r, resp, before)
	}
	return resp, nil
}

// at is the object of a path, or nil.
func (l *line) at(path string) *unstructured.Unstructured {
	parts := strings.Split(strings.TrimSuffix(strings.Trim(path, "/"), "/status"), "/")
	u := &unstructured.Unstructured{}
	switch {
	case len(parts) == 6 && parts[4] == "configmaps":
		u.SetGroupVersionKind(apitest.ConfigMaps.GroupVersionKind)
		u.SetNamespace(parts[3])
		u.SetName(parts[5])
	case len(parts) == 7 && parts[5] == "widgets":
		u.SetGroupVersionKind(widgetKind)
		u.SetNamespace(parts[4])
		u.SetName(parts[6])
	default:
		return nil
	}
	if !l.Server.Get(u) {
		return nil
	}
	return u
}

// asServersAnswer makes the answer to a write that removed an object what the API server says: a
// Status to a Delete, and the revision that was sent, not that of the deletion, to any other write.
func (l *line) asServersAnswer(r *http.Request, resp *http.Response, before *unstructured.Unstructured) (*http.Response, error) {
	if before == nil || resp.StatusCode != http.StatusOK || l.at(r.URL.Path) != nil {
		return resp, nil
	}
	if r.Method == http.MethodDelete {
		if before.GetKind() == "ConfigMap" { // as for Pods, the answer is the object
			return resp, nil
		}
		return respond(r, map[string]any{
			"kind": "Status", "apiVersion": "v1", "status": "Success", "details": map[string]any{"uid": before.GetUID()},
		})
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	var u map[string]any
	if err := json.Unmarshal(body, &u); err != nil {
		return nil, err
	}
	(&unstructured.Unstructured{Object: u}).SetResourceVersion(before.GetResourceVersion())
	body, err = json.Marshal(u)
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, err
}

// heldBody is the body of a watch that waits while the line is held.
type heldBody struct {
	io.ReadCloser
	line *line
	ctx  context.Context
}

func (b *heldBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.line.mu.Lock()
	released := b.line.released
	b.line.mu.Unlock()
	select {
	case <-released:
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	}
	return n, err
}

// cluster is a client with a cache that follows some kinds of a server. It lives in a bubble.
type cluster struct {
	*client.Client
	line     *line
	cache    *cache.Cache
	watches  map[schema.GroupVersionKind]*cache.Watch
	log      *bytes.Buffer
	registry *prometheus.Registry
}

// newCluster runs a cache until the test ends. It has ConfigMaps, Widgets, Secrets and Pods; the given kinds are watched.
func newCluster(t *testing.T, options map[schema.GroupKind]cache.Options, watched ...schema.GroupVersionKind) *cluster {
	t.Helper()
	l := &line{Server: apitest.New(apitest.ConfigMaps, apitest.Secrets, apitest.Pods, widgets), released: make(chan struct{})}
	close(l.released)
	// No server's first listing is of revision 0, from which a watch has a meaning of its own.
	apitest.Put(l.Server, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "first"}})
	c := prepare(t, l, options, watched...)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := c.cache.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	synctest.Wait()
	l.take()
	return c
}

func prepare(t *testing.T, l *line, options map[schema.GroupKind]cache.Options, watched ...schema.GroupVersionKind) *cluster {
	t.Helper()
	config := &rest.Config{Host: "http://server.test"}
	transport := &http.Client{Transport: l}
	mapper, err := client.NewMapper(config, transport)
	must(t, err)
	store, err := cache.New(cache.Config{REST: config, HTTP: transport, Mapper: mapper, Kinds: options, FieldOwners: []string{"me"}})
	must(t, err)
	c := &cluster{
		line: l, cache: store, watches: map[schema.GroupVersionKind]*cache.Watch{},
		log: &bytes.Buffer{}, registry: prometheus.NewRegistry(),
	}
	for _, gvk := range watched {
		c.watch(t, gvk)
	}
	c.Client, err = client.New(client.Config{
		REST: config, HTTP: transport, Mapper: mapper, Cache: store, FieldOwner: "me", Metrics: c.registry,
		Logger: slog.New(slog.NewTextHandler(io.MultiWriter(c.log, t.Output()), nil)),
	})
	must(t, err)
	return c
}

// watch replaces the watch of a kind.
func (c *cluster) watch(t *testing.T, gvk schema.GroupVersionKind) {
	t.Helper()
	if w := c.watches[gvk]; w != nil {
		w.Close()
	}
	w, err := c.cache.Watch(gvk, nil)
	must(t, err)
	c.watches[gvk] = w
}

// count is the sum of a counter over all its labels.
func (c *cluster) count(t *testing.T, name string) (sum float64) {
	t.Helper()
	families, err := c.registry.Gather()
	must(t, err)
	for _, family := range families {
		if family.GetName() == name {
			for _, m := range family.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

func withTimeout(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}
