package cache

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a scripted API server behind a RoundTripper: one revision, objects of any collection, LIST in
// pages, WATCH with bookmarks and WatchList, in protobuf and JSON. It knows no admission, no defaults, no
// authorization; faults are what a test puts in its way.
type server struct {
	mu       sync.Mutex
	revision int64
	floor    int64                            // watches from before this revision get 410
	objects  map[string]map[string]testObject // by collection ("pods.") and key
	history  []change
	streams  []*stream
	requests []string // what was asked: "LIST /api/v1/pods?…"

	// fault, if set, may answer a request itself; nil lets it through.
	fault func(r *http.Request) *http.Response
	// noStreaming makes it ignore WatchList: "silent" watches without ever ending the listing, "invalid"
	// refuses.
	noStreaming string
	// jsonOnly makes it ignore that protobuf is asked for.
	jsonOnly bool
}

type testObject interface {
	runtime.Object
	metav1.Object
}

type change struct {
	revision   int64
	collection string
	typ        string
	object     testObject
}

func newServer() *server {
	return &server{revision: 100, objects: map[string]map[string]testObject{}}
}

// put creates or updates an object and returns its new state.
func (s *server) put(collection string, o testObject) testObject {
	s.mu.Lock()
	defer s.mu.Unlock()
	o = o.DeepCopyObject().(testObject)
	key := joinKey(types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()})
	if s.objects[collection] == nil {
		s.objects[collection] = map[string]testObject{}
	}
	s.revision++
	typ := "ADDED"
	if was := s.objects[collection][key]; was != nil {
		typ = "MODIFIED"
		o.SetUID(was.GetUID())
	} else {
		o.SetUID(types.UID(fmt.Sprintf("uid-%d", s.revision)))
	}
	o.SetResourceVersion(strconv.FormatInt(s.revision, 10))
	s.objects[collection][key] = o
	s.record(change{s.revision, collection, typ, o})
	return o
}

func (s *server) delete(collection, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.objects[collection][key]
	if o == nil {
		return
	}
	s.revision++
	o = o.DeepCopyObject().(testObject)
	o.SetResourceVersion(strconv.FormatInt(s.revision, 10))
	delete(s.objects[collection], key)
	s.record(change{s.revision, collection, "DELETED", o})
}

// record remembers a change and sends it to the open watches; mu is held.
func (s *server) record(c change) {
	s.history = append(s.history, c)
	for _, st := range s.streams {
		st.send(c)
	}
}

// bookmark sends a bookmark of the present revision to all watches.
func (s *server) bookmark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.streams {
		st.bookmark(s.revision, false)
	}
}

// drop ends all open watches: in order with nil, else with the error in the middle of the body.
func (s *server) drop(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.streams {
		st.body.end(err)
	}
	s.streams = nil
}

// mute makes all open watches half open: they never say anything again.
func (s *server) mute() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams = nil
}

// compact forgets the history.
func (s *server) compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.floor, s.history = s.revision, nil
}

// asked returns the requests since it was last called.
func (s *server) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.requests
	s.requests = nil
	return r
}

func (s *server) setFault(f func(r *http.Request) *http.Response) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// RoundTrip serves one request.
func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	q := r.URL.Query()
	verb := "LIST"
	if q.Get("watch") != "" {
		verb = "WATCH"
	}
	s.mu.Lock()
	s.requests = append(s.requests, verb+" "+r.URL.Path+"?"+r.URL.RawQuery)
	fault := s.fault
	s.mu.Unlock()
	if fault != nil {
		if resp := fault(r); resp != nil {
			return resp, nil
		}
	}
	collection, namespace := collectionOf(r.URL.Path)
	selector, err := labels.Parse(q.Get("labelSelector"))
	if err != nil {
		return statusResponse(apierrors.NewBadRequest(err.Error())), nil
	}
	selects := func(o testObject) bool {
		return (namespace == "" || o.GetNamespace() == namespace) && selector.Matches(labels.Set(o.GetLabels()))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.format(r.Header.Get("Accept"))
	if verb == "LIST" {
		return s.list(collection, q.Get("limit"), q.Get("continue"), selects, f), nil
	}
	return s.watch(r, collection, selects, f), nil
}

func collectionOf(path string) (collection, namespace string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	group := ""
	if parts[0] == "apis" {
		group, parts = parts[1], parts[1:]
	}
	parts = parts[2:]
	if parts[0] == "namespaces" && len(parts) > 1 {
		namespace, parts = parts[1], parts[2:]
	}
	return parts[0] + "." + group, namespace
}

// format is how a response is encoded.
type format struct{ proto, metadata bool }

func (s *server) format(accept string) format {
	f := format{metadata: strings.Contains(accept, "as=PartialObjectMetadata")}
	f.proto = strings.HasPrefix(accept, "application/vnd.kubernetes.protobuf") && !s.jsonOnly
	return f
}

func (f format) contentType() string {
	if f.proto {
		return "application/vnd.kubernetes.protobuf"
	}
	return "application/json"
}

// encode writes an object as the server would.
func (f format) encode(o runtime.Object) []byte {
	if f.metadata {
		if m, err := meta.Accessor(o); err == nil {
			p := meta.AsPartialObjectMetadata(m)
			p.TypeMeta = metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}
			o = p
		}
	}
	var b bytes.Buffer
	if f.proto {
		must(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(o, &b))
		return b.Bytes()
	}
	must(json.NewEncoder(&b).Encode(o))
	return b.Bytes()
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// list answers a LIST; the continue token is the key of the last object given. mu is held.
func (s *server) list(collection, limit, after string, selects func(testObject) bool, f format) *http.Response {
	listMeta := metav1.ListMeta{ResourceVersion: strconv.FormatInt(s.revision, 10)}
	var items []runtime.Object
	n, _ := strconv.Atoi(limit)
	for _, key := range slices.Sorted(maps.Keys(s.objects[collection])) {
		if o := s.objects[collection][key]; key > after && selects(o) {
			if n > 0 && len(items) == n {
				last, _ := meta.Accessor(items[n-1])
				listMeta.Continue = joinKey(types.NamespacedName{Namespace: last.GetNamespace(), Name: last.GetName()})
				break
			}
			items = append(items, o)
		}
	}
	return okResponse(f, io.NopCloser(bytes.NewReader(f.encodeList(items, listMeta))))
}

func (f format) encodeList(items []runtime.Object, m metav1.ListMeta) []byte {
	if !f.proto {
		list := map[string]any{"kind": "List", "apiVersion": "v1", "metadata": m}
		raw := []json.RawMessage{}
		for _, o := range items {
			raw = append(raw, f.encode(o))
		}
		list["items"] = raw
		data, err := json.Marshal(list)
		must(err)
		return data
	}
	// Every list kind has the shape that is written here.
	var body []byte
	metaBytes, err := m.Marshal()
	must(err)
	body = appendField(body, 1, metaBytes)
	for _, o := range items {
		message, err := protoUnwrap(string(f.encode(o)))
		must(err)
		body = appendField(body, 2, []byte(message))
	}
	unknown := runtime.Unknown{Raw: body}
	data, err := unknown.Marshal()
	must(err)
	return append([]byte(protoMagic), data...)
}

func appendField(b []byte, number int, content []byte) []byte {
	b = append(b, byte(number<<3|2))
	b = binary.AppendUvarint(b, uint64(len(content)))
	return append(b, content...)
}

// watch answers a WATCH; mu is held.
func (s *server) watch(r *http.Request, collection string, selects func(testObject) bool, f format) *http.Response {
	q := r.URL.Query()
	initial := q.Get("sendInitialEvents") == "true"
	if initial && s.noStreaming == "invalid" {
		return statusResponse(apierrors.NewInvalid(schema.GroupKind{}, "", nil))
	}
	st := &stream{collection: collection, selects: selects, format: f, body: newBody(r.Context())}
	from, _ := strconv.ParseInt(q.Get("resourceVersion"), 10, 64)
	if initial {
		from = s.revision
		for _, key := range slices.Sorted(maps.Keys(s.objects[collection])) {
			st.send(change{collection: collection, typ: "ADDED", object: s.objects[collection][key]})
		}
		if s.noStreaming == "" {
			st.bookmark(s.revision, true)
		}
	}
	if !initial && from < s.floor {
		return statusResponse(apierrors.NewResourceExpired("too old resource version"))
	}
	for _, c := range s.history {
		if c.revision > from {
			st.send(c)
		}
	}
	s.streams = append(s.streams, st)
	if seconds, _ := strconv.Atoi(q.Get("timeoutSeconds")); seconds > 0 {
		timer := time.AfterFunc(time.Duration(seconds)*time.Second, func() { st.body.end(nil) })
		context.AfterFunc(r.Context(), func() { timer.Stop() })
	}
	return okResponse(f, st.body)
}

// stream is one open watch.
type stream struct {
	collection string
	selects    func(testObject) bool
	format     format
	body       *body
}

// send writes an event. It does not turn changes of the labels into additions and deletions.
func (st *stream) send(c change) {
	if c.collection == st.collection && st.selects(c.object) {
		st.frame(c.typ, c.object)
	}
}

func (st *stream) bookmark(revision int64, end bool) {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod"}}
	o.SetResourceVersion(strconv.FormatInt(revision, 10))
	if end {
		o.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	if st.format.proto {
		p := meta.AsPartialObjectMetadata(o)
		p.TypeMeta = metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}
		st.frame("BOOKMARK", p)
		return
	}
	st.frame("BOOKMARK", o)
}

func (st *stream) frame(typ string, o runtime.Object) {
	raw := st.format.encode(o)
	if !st.format.proto {
		data, err := json.Marshal(map[string]any{"type": typ, "object": json.RawMessage(raw)})
		must(err)
		st.body.write(append(data, '\n'))
		return
	}
	ev := metav1.WatchEvent{Type: typ, Object: runtime.RawExtension{Raw: raw}}
	data, err := ev.Marshal()
	must(err)
	st.body.write(append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...))
}

// body is a response's body that grows while it is read.
type body struct {
	ctx  context.Context
	mu   sync.Mutex
	data bytes.Buffer
	err  error // at the end of data; nil: more may come
	wake chan struct{}
}

func newBody(ctx context.Context) *body { return &body{ctx: ctx, wake: make(chan struct{}, 1)} }

func (b *body) write(data []byte) {
	b.mu.Lock()
	b.data.Write(data)
	b.mu.Unlock()
	b.poke()
}

// end ends the body, with io.EOF for nil.
func (b *body) end(err error) {
	if err == nil {
		err = io.EOF
	}
	b.mu.Lock()
	b.err = err
	b.mu.Unlock()
	b.poke()
}

func (b *body) poke() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *body) Read(p []byte) (int, error) {
	for {
		b.mu.Lock()
		n, _ := b.data.Read(p)
		err := b.err
		b.mu.Unlock()
		if n > 0 {
			return n, nil
		}
		if err != nil {
			return 0, err
		}
		select {
		case <-b.wake:
		case <-b.ctx.Done():
			return 0, b.ctx.Err()
		}
	}
}

func (b *body) Close() error { return nil }

func okResponse(f format, body io.ReadCloser) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {f.contentType()}}, Body: body}
}

func statusResponse(err *apierrors.StatusError) *http.Response {
	status := err.ErrStatus
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	data, marshalErr := json.Marshal(status)
	must(marshalErr)
	h := http.Header{"Content-Type": {"application/json"}}
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		h.Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	return &http.Response{StatusCode: int(status.Code), Header: h, Body: io.NopCloser(bytes.NewReader(data))}
}

// forbid is a fault.
func forbid(*http.Request) *http.Response {
	return statusResponse(apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil))
}
