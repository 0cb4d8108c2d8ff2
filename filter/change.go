package filter

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The verbs of a change, as [Change.Verb] reports them. They are the words of the watch protocol in lower case.
const (
	Added    = "added"
	Modified = "modified"
	Deleted  = "deleted"
)

// A Change is one step of one object. At least one of Old and New is set.
type Change struct {
	// Kind is the kind of the object, also when its decoded form does not say so.
	Kind schema.GroupVersionKind
	// Old is the state before the change; nil when the object was not known before.
	Old *State
	// New is the state after the change; nil when the object is gone. The object may have been gone for a while and
	// Old may not be its very last state when the watch was interrupted meanwhile.
	New *State
	// Initial is true for an object of the first listing, which a reader sees once at start-up.
	Initial bool
}

// Verb tells what happened in one word: [Added], [Modified] or [Deleted].
func (c Change) Verb() string {
	switch {
	case c.New == nil:
		return Deleted
	case c.Old == nil:
		return Added
	default:
		return Modified
	}
}

// Latest returns the newest state that is known: New, or Old when the object is gone.
func (c Change) Latest() *State {
	if c.New != nil {
		return c.New
	}
	return c.Old
}

// Deletion reports whether the change deletes the object or marks it for deletion, which is when finalizers
// have to run. A controller lets such a change pass whatever its filters say.
func (c Change) Deletion() bool {
	if c.New == nil {
		return true
	}
	if c.New.Meta().DeletionTimestamp == nil {
		return false
	}
	return c.Old == nil || c.Old.Meta().DeletionTimestamp == nil
}

// A State is one state of an object, decoded when it is first asked for. All its methods may be called from several
// goroutines at once.
type State struct {
	metaOnce sync.Once
	readMeta func() *metav1.ObjectMeta
	meta     *metav1.ObjectMeta

	objectOnce sync.Once
	readObject func() (runtime.Object, error)
	object     runtime.Object
	err        error
}

// NewState returns a state that takes its metadata from readMeta and its object from readObject. Each is called at most
// once and must return memory that nobody else writes to; readMeta must not return nil.
func NewState(readMeta func() *metav1.ObjectMeta, readObject func() (runtime.Object, error)) *State {
	return &State{readMeta: readMeta, readObject: readObject}
}

// StateOf returns the state of an object at hand, which must not be written to from then on. It serves tests of
// filters and sources that have decoded objects anyway.
func StateOf(object interface {
	runtime.Object
	metav1.Object
}) *State {
	return NewState(
		func() *metav1.ObjectMeta { return metaOf(object) },
		func() (runtime.Object, error) { return object, nil },
	)
}

// metaOf returns the ObjectMeta inside a typed object; of others (unstructured ones) it assembles one.
func metaOf(m metav1.Object) *metav1.ObjectMeta {
	if typed, ok := m.(metav1.ObjectMetaAccessor); ok {
		if meta, ok := typed.GetObjectMeta().(*metav1.ObjectMeta); ok {
			return meta
		}
	}
	return &metav1.ObjectMeta{
		Name:                       m.GetName(),
		GenerateName:               m.GetGenerateName(),
		Namespace:                  m.GetNamespace(),
		UID:                        m.GetUID(),
		ResourceVersion:            m.GetResourceVersion(),
		Generation:                 m.GetGeneration(),
		CreationTimestamp:          m.GetCreationTimestamp(),
		DeletionTimestamp:          m.GetDeletionTimestamp(),
		DeletionGracePeriodSeconds: m.GetDeletionGracePeriodSeconds(),
		Labels:                     m.GetLabels(),
		Annotations:                m.GetAnnotations(),
		OwnerReferences:            m.GetOwnerReferences(),
		Finalizers:                 m.GetFinalizers(),
		ManagedFields:              m.GetManagedFields(),
	}
}

// Meta returns the object's metadata. It is shared: read it, do not write to it. ManagedFields may be missing, because
// the cache does not keep them unless told to.
func (s *State) Meta() *metav1.ObjectMeta {
	s.metaOnce.Do(func() { s.meta = s.readMeta() })
	return s.meta
}

// Object returns the decoded object. It is shared: read it, do not write to it. The error says that the object could not
// be decoded into its Go type and is the same at each call.
func (s *State) Object() (runtime.Object, error) {
	s.objectOnce.Do(func() { s.object, s.err = s.readObject() })
	return s.object, s.err
}
