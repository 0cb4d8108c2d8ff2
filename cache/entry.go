package cache

import (
	"fmt"
	"strings"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// object is one state of one object, immutable once it is in a store.
//
// Its strings are parts of data, so that a state is two allocations and pins nothing but itself; only the key
// has memory of its own, because it outlives the state: all states of an object share it.
type object struct {
	data       string // the encoded object, then the managedFields put aside; see packer for compressed ones
	size       uint32 // how many bytes the encoded object has
	slot       uint32 // its place in the store's slots
	head       uint32 // of a compressed object: how much of data is not
	encoding   encoding
	compressed bool
	expected   bool // its end is told also to who did not see it come; of store.mu
	key        string
	uid        string
	version    string
	values     *[][]string            // of the kind's field indexes, in their order; nil without indexes
	immutable  atomic.Pointer[models] // decoded forms that reads copy from; used for JSON only
}

// newObject makes an object from its bytes, which it copies.
func newObject(enc encoding, data string, keep retention) (*object, error) {
	stripped, managed, err := enc.strip(data, keep)
	if err != nil {
		return nil, err
	}
	o := &object{data: stripped, size: uint32(len(stripped)), encoding: enc}
	if managed != "" {
		o.data += managed
	}
	metadata, err := o.metadata()
	if err != nil {
		return nil, err
	}
	h, err := enc.header(metadata)
	if err != nil {
		return nil, err
	}
	if h.name == "" {
		return nil, fmt.Errorf("the object has no name")
	}
	o.uid, o.version = h.uid, h.resourceVersion
	o.key = strings.Clone(h.key())
	return o, nil
}

// encoded, managed and metadata are of objects that are not compressed.
func (o *object) encoded() string { return o.data[:o.size] }

func (o *object) managed() string { return o.data[o.size:] }

func (o *object) metadata() (string, error) { return o.encoding.metadata(o.encoded()) }

// name splits the key.
func (o *object) name() types.NamespacedName { return splitKey(o.key) }

func splitKey(key string) types.NamespacedName {
	namespace, name, found := strings.Cut(key, "/")
	if !found {
		return types.NamespacedName{Name: key}
	}
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func joinKey(key types.NamespacedName) string {
	return header{namespace: key.Namespace, name: key.Name}.key()
}

// Get, Has and Lookup make an object's labels a labels.Labels without decoding them.
func (o *object) Get(label string) string {
	value, _ := o.Lookup(label)
	return value
}

func (o *object) Has(label string) bool {
	_, found := o.Lookup(label)
	return found
}

func (o *object) Lookup(label string) (value string, found bool) {
	o.eachLabel(func(k, v string) bool {
		if k == label {
			value, found = v, true
		}
		return !found
	})
	return value, found
}

func (o *object) eachLabel(yield func(key, value string) bool) {
	metadata, err := o.data[:o.head], error(nil)
	if !o.compressed {
		metadata, err = o.metadata()
	}
	if err == nil {
		o.encoding.pairs(metadata, labelsMap, yield)
	}
}

// cost is about what the object takes in memory, without its share of the store's tables.
func (o *object) cost() int64 {
	const fixed = 112 + 48 // the struct and its key
	return int64(len(o.data)) + fixed
}

// Entry is one state of one object as the cache holds it: immutable, and valid however long it is kept. The
// zero Entry is no object.
type Entry struct {
	object *object
	form   *form
}

// Transformed reports whether the kind has a transform, so that what the cache holds is not what the server has.
func (e Entry) Transformed() bool { return e.form.keep.transformed }

// ResourceVersion is the object's revision.
func (e Entry) ResourceVersion() string { return e.object.version }

// UID is the object's UID.
func (e Entry) UID() types.UID { return types.UID(e.object.uid) }

// ManagedFields returns a private copy of the managedFields entries that were kept: those of the managers in
// Config.FieldOwners, or all with KeepManagedFields. It is nil when there are none.
func (e Entry) ManagedFields() []metav1.ManagedFieldsEntry {
	if e.form.keep.managedFields {
		meta, err := e.form.meta(e.object)
		if err != nil {
			return nil
		}
		return meta.ManagedFields
	}
	o, err := e.form.packer.unpack(e.object)
	if err != nil {
		return nil
	}
	managed, err := o.encoding.managed(o.managed())
	if err != nil {
		return nil
	}
	return managed
}

// Decode decodes a private copy, as Get does.
func (e Entry) Decode(into runtime.Object) error { return e.form.decode(e.object, into) }
