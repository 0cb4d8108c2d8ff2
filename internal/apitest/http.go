package apitest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

// call is one request as the verbs see it.
type call struct {
	Request
	http    *http.Request
	kind    Kind
	body    []byte
	matches func(object) bool
}

// answer serves one request.
func (s *Server) answer(req *http.Request) *http.Response {
	var body []byte
	if req.Body != nil {
		defer req.Body.Close()
		var err error
		if body, err = io.ReadAll(req.Body); err != nil {
			return failure(req, err)
		}
	}
	s.mu.Lock()
	c, err := s.route(req, body)
	s.requests = append(s.requests, c.Request)
	hook := s.hook
	s.mu.Unlock()
	if hook != nil {
		if hookErr := hook(c.Request); hookErr != nil {
			return failure(req, hookErr)
		}
	}
	if err != nil {
		return failure(req, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.Verb == "watch" {
		return s.watch(c)
	}
	before := s.revision
	out, err := s.serve(c)
	resp := success(req, out)
	if err != nil {
		resp = failure(req, err)
	}
	if s.audit != nil && c.Verb != "discover" {
		s.audit(c.Request, outcome(c, resp.StatusCode, out, err, before, s.revision))
	}
	return resp
}

func outcome(c *call, code int, out any, err error, before, after int64) Outcome {
	o := Outcome{Code: code, Name: c.Name}
	if content, ok := out.(object); ok && c.Verb == "create" {
		o.Name = (&unstructured.Unstructured{Object: content}).GetName()
	}
	if status := (*apierrors.StatusError)(nil); errors.As(err, &status) && o.Name == "" && status.ErrStatus.Details != nil {
		o.Name = status.ErrStatus.Details.Name
	}
	if after != before {
		o.Revision = after
	}
	return o
}

// route finds what a request is about. s.mu is held.
func (s *Server) route(req *http.Request, body []byte) (*call, error) {
	c := &call{http: req, body: body}
	c.Verb, c.UserAgent, c.Body = "discover", req.UserAgent(), string(body)
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	group, version := "", ""
	switch {
	case parts[0] == "api" && len(parts) > 2:
		version, parts = parts[1], parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		group, version, parts = parts[1], parts[2], parts[3:]
	default:
		return c, nil
	}
	if parts[0] == "namespaces" && len(parts) > 2 && !(len(parts) == 3 && parts[2] == "status") {
		c.Namespace, parts = parts[1], parts[2:]
	}
	c.Resource = parts[0]
	if len(parts) > 1 {
		c.Name = parts[1]
	}
	if len(parts) > 2 {
		c.Subresource = parts[2]
	}
	query := req.URL.Query()
	c.Verb = verb(req.Method, c.Name, query.Get("watch"))
	var err error
	if c.matches, err = selection(query.Get("labelSelector"), query.Get("fieldSelector")); err != nil {
		return c, err
	}
	for _, kind := range s.kinds {
		if kind.Group == group && kind.Version == version && kind.Resource == c.Resource {
			c.kind = kind
			return c, nil
		}
	}
	return c, &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
		Message: "the server could not find the requested resource",
	}}
}

func verb(method, name, watch string) string {
	collection := name == ""
	switch {
	case method == http.MethodGet && (watch == "true" || watch == "1"):
		return "watch"
	case method == http.MethodGet && collection:
		return "list"
	case method == http.MethodGet:
		return "get"
	case method == http.MethodPost:
		return "create"
	case method == http.MethodPut:
		return "update"
	case method == http.MethodPatch:
		return "patch"
	case method == http.MethodDelete && collection:
		return "deletecollection"
	default:
		return "delete"
	}
}

// selection returns a function that decides by selectors.
func selection(labelSelector, fieldSelector string) (func(object) bool, error) {
	byLabel, err := labels.Parse(labelSelector)
	if err != nil {
		return nil, err
	}
	byField, err := fields.ParseSelector(fieldSelector)
	if err != nil {
		return nil, err
	}
	return func(o object) bool {
		u := unstructured.Unstructured{Object: o}
		values := fields.Set{}
		for _, r := range byField.Requirements() {
			// A field that is missing, or no text, is selected as "".
			values[r.Field], _, _ = unstructured.NestedString(o, strings.Split(r.Field, ".")...)
		}
		return byLabel.Matches(labels.Set(u.GetLabels())) && byField.Matches(values)
	}, nil
}

// serve does what a request asks for. s.mu is held.
func (s *Server) serve(c *call) (any, error) {
	old := s.objects[c.kind.gvr()][key(c.Namespace, c.Name)]
	if old == nil && c.Name != "" && c.Verb != "create" && c.Verb != "patch" {
		return nil, apierrors.NewNotFound(c.kind.gvr().GroupResource(), c.Name)
	}
	switch c.Verb {
	case "discover":
		return s.discover(c.http.URL.Path)
	case "get":
		return c.view(old), nil
	case "list":
		items := []any{}
		for _, o := range s.listed(c) {
			items = append(items, c.view(o))
		}
		kind, version := c.kind.Kind+"List", c.kind.GroupVersion().String()
		if c.metadataOnly() {
			kind, version = "PartialObjectMetadataList", "meta.k8s.io/v1"
		}
		return object{
			"kind": kind, "apiVersion": version, "items": items,
			"metadata": object{"resourceVersion": strconv.FormatInt(s.revision, 10)},
		}, nil
	case "create":
		return s.serveCreate(c)
	case "update":
		content, err := c.content()
		if err != nil {
			return nil, err
		}
		return s.update(c.kind, old, content, c.Subresource == "status")
	case "patch":
		return s.servePatch(c, old)
	case "delete":
		return s.serveDelete(c, old)
	case "deletecollection":
		for _, o := range s.list(c.kind, c.Namespace, c.matches) {
			s.delete(c.kind, o)
		}
		return metav1.Status{Status: metav1.StatusSuccess}, nil
	}
	return nil, apierrors.NewMethodNotSupported(c.kind.gvr().GroupResource(), c.Verb)
}

// listed returns the objects of a list. One by name, as clients ask for the state
// of an object and the collection's revision, is found without a search. s.mu is
// held.
func (s *Server) listed(c *call) []object {
	selector, _ := fields.ParseSelector(c.http.URL.Query().Get("fieldSelector"))
	name, found := selector.RequiresExactMatch("metadata.name")
	if !found || c.Namespace == "" {
		return s.list(c.kind, c.Namespace, c.matches)
	}
	if o := s.objects[c.kind.gvr()][key(c.Namespace, name)]; o != nil && c.matches(o) {
		return []object{o}
	}
	return nil
}

func (s *Server) serveCreate(c *call) (any, error) {
	content, err := c.content()
	if err != nil {
		return nil, err
	}
	u := unstructured.Unstructured{Object: content}
	if !c.kind.ClusterScoped {
		u.SetNamespace(c.Namespace)
	}
	if s.objects[c.kind.gvr()][key(u.GetNamespace(), u.GetName())] != nil {
		return nil, apierrors.NewAlreadyExists(c.kind.gvr().GroupResource(), u.GetName())
	}
	return s.create(c.kind, content), nil
}

// servePatch applies JSON merge patches, takes strategic ones for such, and
// applies.
func (s *Server) servePatch(c *call, old object) (any, error) {
	apply := strings.HasPrefix(c.http.Header.Get("Content-Type"), "application/apply-patch")
	patch, err := c.content()
	if err != nil {
		return nil, err
	}
	if apply {
		patch = c.owning(old, patch)
	}
	if old == nil {
		if !apply {
			return nil, apierrors.NewNotFound(c.kind.gvr().GroupResource(), c.Name)
		}
		u := unstructured.Unstructured{Object: patch}
		if u.GetUID() != "" {
			return nil, conflict(c.kind, c.Name, "the UID does not match: there is no object")
		}
		return s.create(c.kind, patch), nil
	}
	next := merge(runtime.DeepCopyJSON(old), patch)
	if meta, _ := patch["metadata"].(map[string]any); meta["resourceVersion"] == nil {
		unstructured.RemoveNestedField(next, "metadata", "resourceVersion")
	}
	return s.update(c.kind, old, next, c.Subresource == "status")
}

func (s *Server) serveDelete(c *call, old object) (any, error) {
	var options metav1.DeleteOptions
	if len(c.body) > 0 {
		if err := unmarshal(c.body, &options); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	u := unstructured.Unstructured{Object: old}
	if p := options.Preconditions; p != nil {
		if p.UID != nil && *p.UID != u.GetUID() {
			return nil, conflict(c.kind, c.Name, "precondition failed: UID")
		}
		if p.ResourceVersion != nil && *p.ResourceVersion != u.GetResourceVersion() {
			return nil, conflict(c.kind, c.Name, "precondition failed: resourceVersion")
		}
	}
	return s.delete(c.kind, old), nil
}

// content decodes the body.
func (c *call) content() (object, error) {
	content := object{}
	if err := unmarshal(c.body, &content); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return content, nil
}

// unmarshal decodes JSON, or protobuf of a built-in kind.
func unmarshal(body []byte, into any) error {
	if bytes.HasPrefix(body, []byte("k8s\x00")) {
		obj, _, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
		if err != nil {
			return err
		}
		if body, err = json.Marshal(obj); err != nil {
			return err
		}
	}
	return json.Unmarshal(body, into)
}

// merge applies a JSON merge patch.
func merge(into, patch object) object {
	for field, value := range patch {
		inner, isObject := value.(map[string]any)
		switch {
		case value == nil:
			delete(into, field)
		case isObject:
			was, _ := into[field].(map[string]any)
			if was == nil {
				was = object{}
			}
			into[field] = merge(was, inner)
		default:
			into[field] = value
		}
	}
	return into
}

// metadataOnly reports whether the caller asked for PartialObjectMetadata.
func (c *call) metadataOnly() bool {
	return strings.Contains(c.http.Header.Get("Accept"), "as=PartialObjectMetadata")
}

// view returns an object in the form that the caller asked for.
func (c *call) view(o object) object {
	if o != nil && c.metadataOnly() {
		return object{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": o["metadata"]}
	}
	return o
}

func uid(n int) types.UID { return types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", n)) }

func conflict(kind Kind, name, why string) error {
	return apierrors.NewConflict(kind.gvr().GroupResource(), name, errors.New(why))
}

func success(req *http.Request, out any) *http.Response {
	data, err := json.Marshal(out)
	if err != nil {
		panic(err)
	}
	return response(req, http.StatusOK, io.NopCloser(bytes.NewReader(data)))
}

func failure(req *http.Request, err error) *http.Response {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	s := status.Status()
	s.Kind, s.APIVersion = "Status", "v1"
	data, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	resp := response(req, int(s.Code), io.NopCloser(bytes.NewReader(data)))
	if s.Details != nil && s.Details.RetryAfterSeconds > 0 {
		resp.Header.Set("Retry-After", strconv.Itoa(int(s.Details.RetryAfterSeconds)))
	}
	return resp
}

func response(req *http.Request, code int, body io.ReadCloser) *http.Response {
	return &http.Response{
		StatusCode: code, Status: strconv.Itoa(code) + " " + http.StatusText(code),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": []string{"application/json"}},
		Body:   body, ContentLength: -1, Request: req,
	}
}
