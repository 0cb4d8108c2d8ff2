package cache

import (
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/filter"
)

// maxExpected is how many objects of a kind may be expected, and how many ends of such objects may wait for a
// subscriber. Beyond it the end of an object that no watch has shown is not told.
const maxExpected = 10_000

// expectation is an object that the server is known to have had, but that no watch has shown yet.
type expectation struct {
	uid, version string // an empty version is before every other
	encoding     encoding
	data         string
}

// Expect tells the cache of an object that the server has, in the words of its answer to a request: the body of an
// object or of its metadata, which must not be changed any more. The object must lie within the kind's scope. Whoever
// wrote or read it there counts on it, so its end is told to the subscribers even if the watch was away while it came
// and went.
//
// It is forgotten when it is seen, or when the watch has passed its revision. It costs no request.
func (c *Cache) Expect(gvk schema.GroupVersionKind, contentType string, body []byte) {
	s, err := c.lookup(gvk)
	if err != nil || !s.isSynced() { // subscribers begin with what is there
		return
	}
	enc, err := encodingOf(contentType)
	data := stringOf(body)
	if err == nil && enc == encodingProto {
		data, err = protoUnwrap(data)
	}
	var h header
	if err == nil {
		h, err = enc.headerOf(data)
	}
	if err != nil {
		s.logger.Error("the end of an object may not be told: it cannot be read", "error", err)
		return
	}
	s.expect(h, &expectation{uid: h.uid, version: h.resourceVersion, encoding: enc, data: data})
}

func (s *store) expect(h header, e *expectation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if held := s.get(h.key()); held != nil && held.uid == e.uid {
		held.expected = true
		return
	}
	for _, sc := range s.scopes {
		if sc.namespace != "" && sc.namespace != h.namespace {
			continue
		}
		if e.passedBy(sc.version) {
			s.missed(h.key(), e)
			continue
		}
		if other := s.expected[h.key()]; other != nil && other.uid != e.uid { // a name has one object at a time
			if newer(other.version, e.version) {
				s.missed(h.key(), e)
				continue
			}
			delete(s.expected, h.key())
			s.missed(h.key(), other)
		}
		if len(s.expected) < maxExpected {
			s.expected[h.key()] = e
		}
	}
}

// passedBy reports whether what is seen up to a revision includes the object.
func (e *expectation) passedBy(version string) bool {
	return e.version == "" || e.version == version || newer(version, e.version)
}

// met takes note that an object is in the store from now on, in place of old; mu is held.
func (s *store) met(old, now *object) {
	if e := s.expected[now.key]; e != nil && e.uid == now.uid {
		delete(s.expected, now.key)
		now.expected = true
	}
	if old != nil && old.uid == now.uid && old.expected {
		now.expected = true
	}
}

// miss tells the end of the objects that a complete listing of a scope lacks; mu is held.
func (s *store) miss(sc *scope, listed map[string]*object, version string) {
	for _, key := range slices.Sorted(maps.Keys(s.expected)) {
		e, now := s.expected[key], listed[key]
		if sc.contains(key) && e.passedBy(version) && (now == nil || now.uid != e.uid) {
			delete(s.expected, key)
			s.missed(key, e)
		}
	}
}

// missed tells the subscribers of the end of an object that they did not see come; mu is held.
func (s *store) missed(key string, e *expectation) {
	for sub := range s.subscribers {
		sub.enqueueEnd(key, s.endOf(key, e))
	}
}

// endOf is the state of an object that never was in the store.
func (s *store) endOf(key string, e *expectation) *filter.State {
	admitted := sync.OnceValues(func() (*object, error) { return s.admit(e.encoding, e.data) })
	return filter.NewState(
		func() *metav1.ObjectMeta {
			o, err := admitted()
			if err != nil {
				name := splitKey(key)
				return &metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}
			}
			return s.form.metaOrKey(o)
		},
		func() (runtime.Object, error) {
			o, err := admitted()
			if err != nil {
				return nil, err
			}
			return s.form.native(o)
		},
	)
}

// forget drops the expectations of a scope that say true; mu is held.
func (s *store) forget(sc *scope, drop func(key string, e *expectation) bool) {
	maps.DeleteFunc(s.expected, func(key string, e *expectation) bool { return sc.contains(key) && drop(key, e) })
}

// contains reports whether the key is of the scope's namespace.
func (sc *scope) contains(key string) bool {
	return sc.namespace == "" || splitKey(key).Namespace == sc.namespace
}
