package apitest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// Kind is a kind that a Server serves.
type Kind struct {
	schema.GroupVersionKind
	Resource      string // as in paths
	ClusterScoped bool
}

func (k Kind) gvr() schema.GroupVersionResource {
	return k.GroupVersion().WithResource(k.Resource)
}

// The built-in kinds that tests use most.
var (
	ConfigMaps  = Kind{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Resource: "configmaps"}
	Secrets     = Kind{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, Resource: "secrets"}
	Pods        = Kind{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, Resource: "pods"}
	Namespaces  = Kind{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, Resource: "namespaces", ClusterScoped: true}
	Nodes       = Kind{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "Node"}, Resource: "nodes", ClusterScoped: true}
	Deployments = Kind{GroupVersionKind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, Resource: "deployments"}
	ReplicaSets = Kind{GroupVersionKind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ReplicaSet"}, Resource: "replicasets"}
	Leases      = Kind{GroupVersionKind: schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}, Resource: "leases"}
	Events      = Kind{GroupVersionKind: schema.GroupVersionKind{Group: "events.k8s.io", Version: "v1", Kind: "Event"}, Resource: "events"}
)

// Request is a request that a Server was sent.
type Request struct {
	// Verb is that of the Kubernetes API: get, list, watch, create, update,
	// patch, delete or deletecollection; "discover" for everything else.
	Verb        string
	Resource    string
	Subresource string
	Namespace   string
	Name        string
	UserAgent   string
	Body        string // as it was sent
}

// String returns "verb resource/subresource namespace/name".
func (r Request) String() string {
	s := r.Verb + " " + r.Resource
	if r.Subresource != "" {
		s += "/" + r.Subresource
	}
	return strings.TrimSuffix(s+" "+strings.Trim(r.Namespace+"/"+r.Name, "/"), " ")
}

// Server is an API server. Its methods may be called concurrently.
type Server struct {
	mu       sync.Mutex
	kinds    []Kind
	revision int64
	uids     int
	objects  map[schema.GroupVersionResource]map[string]object
	history  []change
	oldest   int64         // revision from which on history is complete
	changed  chan struct{} // closed and replaced at each change and each drop of watches
	drops    int           // how often watches were dropped
	requests []Request
	hook     func(Request) error
	audit    func(Request, Outcome)
}

// Outcome is what became of a request.
type Outcome struct {
	Code     int    // the HTTP status
	Name     string // of the object, also of one that was created
	Revision int64  // that the request made; 0: it changed nothing
}

// object is a stored object, never changed once it is stored.
type object = map[string]any

// change is one step of the server's history.
type change struct {
	revision int64
	resource schema.GroupVersionResource
	old, now object // nil: created, deleted
}

// New returns a server of these kinds that holds no objects.
func New(kinds ...Kind) *Server {
	s := &Server{
		objects: map[schema.GroupVersionResource]map[string]object{},
		changed: make(chan struct{}),
	}
	s.Serve(kinds...)
	return s
}

// REST returns a configuration that reaches the server.
func (s *Server) REST() *rest.Config {
	return &rest.Config{Host: "http://apitest", Transport: s, QPS: -1}
}

// Serve adds kinds, as the creation of a CustomResourceDefinition does.
func (s *Server) Serve(kinds ...Kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, kind := range kinds {
		s.kinds = append(s.kinds, kind)
		s.objects[kind.gvr()] = map[string]object{}
	}
}

// Intercept has hook called with each request before it is served. An error,
// best an apierrors status, is the answer instead. Nil ends that.
func (s *Server) Intercept(hook func(Request) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = hook
}

// Audit has log called with every request for one object or a collection but
// watches, after it was served, in the order of the revisions. Log must not call
// the server.
func (s *Server) Audit(log func(Request, Outcome)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.audit = log
}

// Requests returns the requests sent so far, and forgets them.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	requests := s.requests
	s.requests = nil
	return requests
}

// DropWatches ends all watches, as a restart of the server does. With compact,
// they cannot go on where they were.
func (s *Server) DropWatches(compact bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if compact {
		s.oldest, s.history = s.revision, nil
	}
	s.drops++
	s.notify()
}

// Put creates or replaces an object, as somebody else would, and returns obj
// with what the server set. It panics when the kind is not served.
func Put[T runtime.Object](s *Server, obj T) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	content, kind := s.content(obj)
	meta := content["metadata"].(map[string]any)
	namespace, _ := meta["namespace"].(string)
	name, _ := meta["name"].(string)
	old := s.objects[kind.gvr()][key(namespace, name)]
	if old == nil {
		content = s.create(kind, content)
	} else {
		delete(meta, "resourceVersion")
		var err error
		if content, err = s.update(kind, old, content, false); err != nil {
			panic(err)
		}
		// What others may write includes the status.
		if status, ok := content["status"]; !ok || !reflect.DeepEqual(status, old["status"]) {
			content, _ = s.update(kind, content, content, true)
		}
	}
	decode(content, obj)
	return obj
}

// Get reads the object that obj names into obj and reports whether it exists.
func (s *Server) Get(obj runtime.Object) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	content, kind := s.content(obj)
	u := unstructured.Unstructured{Object: content}
	found := s.objects[kind.gvr()][key(u.GetNamespace(), u.GetName())]
	if found == nil {
		return false
	}
	decode(found, obj)
	return true
}

// Delete deletes the object that obj names, as somebody else would.
func (s *Server) Delete(obj runtime.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	content, kind := s.content(obj)
	u := unstructured.Unstructured{Object: content}
	if found := s.objects[kind.gvr()][key(u.GetNamespace(), u.GetName())]; found != nil {
		s.delete(kind, found)
	}
}

// Count returns the number of objects of a kind.
func (s *Server) Count(kind Kind) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.objects[kind.gvr()])
}

// content returns obj as JSON objects and its kind.
func (s *Server) content(obj runtime.Object) (object, Kind) {
	gvk := obj.GetObjectKind().GroupVersionKind()
	if gvk.Empty() {
		gvks, _, err := clientgoscheme.Scheme.ObjectKinds(obj)
		if err != nil {
			panic(err)
		}
		gvk = gvks[0]
	}
	for _, kind := range s.kinds {
		if kind.GroupVersionKind == gvk {
			data, err := json.Marshal(obj)
			if err != nil {
				panic(err)
			}
			content := object{}
			if err := json.Unmarshal(data, &content); err != nil {
				panic(err)
			}
			content["apiVersion"], content["kind"] = gvk.GroupVersion().String(), gvk.Kind
			return content, kind
		}
	}
	panic(fmt.Sprintf("apitest: %v is not served", gvk))
}

// decode replaces obj by the content.
func decode(content object, obj runtime.Object) {
	data, err := json.Marshal(content)
	if err != nil {
		panic(err)
	}
	reflect.ValueOf(obj).Elem().SetZero()
	if err := json.Unmarshal(data, obj); err != nil {
		panic(err)
	}
}

func key(namespace, name string) string { return namespace + "/" + name }

// store makes now the state of an object; nil deletes it. s.mu is held.
func (s *Server) store(kind Kind, old, now object) object {
	s.revision++
	rv := strconv.FormatInt(s.revision, 10)
	u := unstructured.Unstructured{Object: old}
	if now != nil {
		u.Object = now
		u.SetResourceVersion(rv)
	} else {
		// A deletion shows the last state at the revision of the deletion.
		old = runtime.DeepCopyJSON(old)
		u.Object = old
		u.SetResourceVersion(rv)
	}
	id := key(u.GetNamespace(), u.GetName())
	if now == nil {
		delete(s.objects[kind.gvr()], id)
	} else {
		s.objects[kind.gvr()][id] = now
	}
	s.history = append(s.history, change{s.revision, kind.gvr(), old, now})
	s.notify()
	if now == nil {
		return old
	}
	return now
}

// notify wakes the watches. s.mu is held.
func (s *Server) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// create stores a new object. s.mu is held.
func (s *Server) create(kind Kind, content object) object {
	u := unstructured.Unstructured{Object: runtime.DeepCopyJSON(content)}
	s.uids++
	if u.GetName() == "" {
		u.SetName(fmt.Sprintf("%s%05d", u.GetGenerateName(), s.uids))
	}
	u.SetUID(uid(s.uids))
	u.SetCreationTimestamp(metav1.Now())
	u.SetDeletionTimestamp(nil)
	u.SetGeneration(1)
	return s.store(kind, nil, u.Object)
}

// update stores a new state of an object: only its status, or all but that. It
// stores nothing when nothing changes. s.mu is held.
func (s *Server) update(kind Kind, old, content object, status bool) (object, error) {
	was := unstructured.Unstructured{Object: old}
	u := unstructured.Unstructured{Object: runtime.DeepCopyJSON(content)}
	if rv := u.GetResourceVersion(); rv != "" && rv != was.GetResourceVersion() {
		return nil, conflict(kind, was.GetName(), "the object has been modified")
	}
	if id := u.GetUID(); id != "" && id != was.GetUID() {
		return nil, conflict(kind, was.GetName(), "the UID does not match")
	}
	if status {
		next := runtime.DeepCopyJSON(old)
		setOrDelete(next, "status", u.Object["status"])
		u.Object = next
	} else {
		setOrDelete(u.Object, "status", old["status"])
		u.SetGeneration(was.GetGeneration())
		if !reflect.DeepEqual(spec(old), spec(u.Object)) {
			u.SetGeneration(was.GetGeneration() + 1)
		}
		u.SetUID(was.GetUID())
		u.SetCreationTimestamp(was.GetCreationTimestamp())
		u.SetDeletionTimestamp(was.GetDeletionTimestamp())
	}
	u.SetResourceVersion(was.GetResourceVersion())
	if reflect.DeepEqual(normal(old), normal(u.Object)) {
		return old, nil
	}
	if u.GetDeletionTimestamp() != nil && len(u.GetFinalizers()) == 0 {
		return s.store(kind, u.Object, nil), nil
	}
	return s.store(kind, old, u.Object), nil
}

// delete deletes an object, or marks it for deletion when it has finalizers.
// s.mu is held.
func (s *Server) delete(kind Kind, old object) object {
	u := unstructured.Unstructured{Object: runtime.DeepCopyJSON(old)}
	if len(u.GetFinalizers()) == 0 {
		return s.store(kind, old, nil)
	}
	if u.GetDeletionTimestamp() != nil {
		return old
	}
	now := metav1.NewTime(time.Now())
	u.SetDeletionTimestamp(&now)
	u.SetGeneration(u.GetGeneration() + 1)
	return s.store(kind, old, u.Object)
}

// spec returns what a generation counts: all but metadata and status.
func spec(content object) object {
	rest := maps.Clone(normal(content))
	delete(rest, "metadata")
	delete(rest, "status")
	return rest
}

// normal returns the content as it is after a trip through JSON.
func normal(content object) object {
	data, err := json.Marshal(content)
	if err != nil {
		panic(err)
	}
	out := object{}
	if err := json.Unmarshal(data, &out); err != nil {
		panic(err)
	}
	return out
}

func setOrDelete(content object, field string, value any) {
	if value == nil {
		delete(content, field)
		return
	}
	content[field] = value
}

// list returns the objects of a kind in a namespace that match, sorted. s.mu is
// held.
func (s *Server) list(kind Kind, namespace string, matches func(object) bool) []object {
	var found []object
	for _, o := range s.objects[kind.gvr()] {
		u := unstructured.Unstructured{Object: o}
		if (namespace == "" || u.GetNamespace() == namespace) && matches(o) {
			found = append(found, o)
		}
	}
	slices.SortFunc(found, func(a, b object) int {
		x, y := unstructured.Unstructured{Object: a}, unstructured.Unstructured{Object: b}
		return cmp.Or(strings.Compare(x.GetNamespace(), y.GetNamespace()), strings.Compare(x.GetName(), y.GetName()))
	})
	return found
}

// RoundTrip implements http.RoundTripper.
func (s *Server) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	return s.answer(req), nil
}

// Events returns all Events, sorted by namespace and name.
func (s *Server) Events() []eventsv1.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	var events []eventsv1.Event
	for _, o := range s.list(Events, "", func(object) bool { return true }) {
		var e eventsv1.Event
		decode(o, &e)
		events = append(events, e)
	}
	return events
}
