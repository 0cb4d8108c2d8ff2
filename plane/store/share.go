package store

import (
	"bytes"
	"io"
	"sync"
	"weak"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// shareFrom is the number of watches of a resource from which on they share their events. For fewer, the copy that
	// sharing takes before the object is encoded costs more than it saves.
	shareFrom = 3
	// recentObjects is how many objects of late events can be found again. It must be as far as watches are apart from each
	// other; those that are further apart decode again.
	recentObjects = 64
)

// shared is an object in the events of several watches: decoded once, and encoded once in each way that is asked for. It can
// be looked at from this package; everyone else can only have it encoded, or have a copy. The API server knows what to do with
// a runtime.CacheableObject in an event, as upstream's watch cache sends those too.
type shared struct {
	record   *record
	revision uint64

	decode sync.Once
	object runtime.Object // not changed by anyone
	err    error

	mu      sync.Mutex
	encoded map[runtime.Identifier]*encoded
}

type encoded struct {
	once sync.Once
	data []byte
	err  error
}

var _ runtime.CacheableObject = (*shared)(nil)
var _ metav1.ObjectMetaAccessor = (*shared)(nil)

// CacheEncode implements runtime.CacheableObject.
func (s *shared) CacheEncode(id runtime.Identifier, encode func(runtime.Object, io.Writer) error, w io.Writer) error {
	s.mu.Lock()
	e := s.encoded[id]
	if e == nil {
		if s.encoded == nil {
			s.encoded = map[runtime.Identifier]*encoded{}
		}
		e = &encoded{}
		s.encoded[id] = e
	}
	s.mu.Unlock()
	e.once.Do(func() {
		var b bytes.Buffer
		e.err = encode(s.GetObject(), &b) // a copy, as encoders may set the object's kind
		e.data = b.Bytes()
	})
	if e.err != nil {
		return e.err
	}
	if splice, ok := w.(runtime.Splice); ok {
		splice.Splice(e.data)
		return nil
	}
	_, err := w.Write(e.data)
	return err
}

// GetObject implements runtime.CacheableObject.
func (s *shared) GetObject() runtime.Object { return s.object.DeepCopyObject() }

// DeepCopyObject implements runtime.Object: the copy is a plain object.
func (s *shared) DeepCopyObject() runtime.Object { return s.GetObject() }

// GetObjectKind implements runtime.Object. Setting the kind has no effect.
func (s *shared) GetObjectKind() schema.ObjectKind {
	t := &metav1.TypeMeta{}
	t.SetGroupVersionKind(s.object.GetObjectKind().GroupVersionKind())
	return t
}

// GetObjectMeta implements metav1.ObjectMetaAccessor with the metadata of a copy.
func (s *shared) GetObjectMeta() metav1.Object {
	m, err := meta.Accessor(s.GetObject())
	if err != nil {
		return &metav1.ObjectMeta{}
	}
	return m
}

// recent finds the shared objects of late events as long as some watch still has them.
type recent struct {
	mu      sync.Mutex
	objects [recentObjects]weak.Pointer[shared]
}

// find returns what r is at a revision, as the new or the old object of the change. It may have to be decoded.
func (c *recent) find(r *record, revision uint64, old bool) *shared {
	at := revision * 2
	if old {
		at++
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &c.objects[at%recentObjects]
	if s := p.Value(); s != nil && s.record == r && s.revision == revision {
		return s
	}
	s := &shared{record: r, revision: revision}
	*p = weak.Make(s)
	return s
}
