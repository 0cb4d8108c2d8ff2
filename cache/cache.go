package cache

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/filter"
)

// ErrNotCached is what a read of a kind gives that nobody watches, or of a
// namespace outside the kind's options, or in a form that is not kept. The
// reader should ask the server instead.
var ErrNotCached = errors.New("not cached")

// Cache is a set of watched kinds. Its methods may be called concurrently.
type Cache struct{}

// New returns a Cache that watches nothing yet and sends no request before Run.
func New(cfg Config) (*Cache, error) { return &Cache{}, nil }

// Run runs the watches until ctx ends, then waits for their goroutines and returns nil.
// It can be called once.
func (c *Cache) Run(ctx context.Context) error { return nil }

// Watch declares interest in a kind, before or during Run. The subscriber, if
// not nil, is called for every change, one call at a time, from a goroutine of
// the watch; nil declares cached reads only. The watch of a kind is shared by all that
// declare it.
func (c *Cache) Watch(gvk schema.GroupVersionKind, subscriber func(filter.Change)) (*Watch, error) {
	return nil, ErrNotCached
}

// Watch is one user's interest in one kind.
type Watch struct{}

// Synced is closed when the first listing is stored and delivered to this subscriber.
func (w *Watch) Synced() <-chan struct{} { return nil }

// Err is what the watch last failed with, or nil while it is healthy.
func (w *Watch) Err() error { return nil }

// WaitSynced waits for Synced or the end of ctx; then the error says what the watch
// last failed with.
func (w *Watch) WaitSynced(ctx context.Context) error { return nil }

// Close ends the interest. The subscriber is not called again, but a call already
// running may still be about to return. The last Close of a kind stops its watch
// and frees its objects. Further calls do nothing.
func (w *Watch) Close() {}

// Index declares a field index by which List can select: fn returns the values of an object
// (typed if the scheme knows the kind, else unstructured; it must not be changed or kept).
// It starts nothing and never blocks. It must be declared before the kind is watched.
func (c *Cache) Index(gvk schema.GroupVersionKind, name string, fn func(runtime.Object) []string) error {
	return nil
}

// Covers reports whether a watch is declared whose scope holds the namespace. The empty
// namespace stands for cluster-scoped objects and for a List over everything in the
// kind's scope, so it is covered whenever the kind is watched.
func (c *Cache) Covers(gvk schema.GroupVersionKind, namespace string) bool { return false }

// Matches reports whether the cache could ever show the object: its kind is watched and the object
// lies in the namespaces and selectors of the kind's options. Where a field
// selector cannot be decided from obj it says true.
func (c *Cache) Matches(gvk schema.GroupVersionKind, obj metav1.Object) bool { return false }

// Get decodes one object into a private copy: a typed object,
// *unstructured.Unstructured or *metav1.PartialObjectMetadata. It waits for the kind's first listing. Errors:
// ErrNotCached; NotFound as the API server words it; the end of ctx together
// with what the watch last failed with.
func (c *Cache) Get(ctx context.Context, gvk schema.GroupVersionKind, key types.NamespacedName, into runtime.Object) error {
	return ErrNotCached
}

// ListOptions selects what List returns. The zero value selects everything.
type ListOptions struct {
	Namespace string          // empty: all namespaces of the kind's scope
	Labels    labels.Selector // nil: everything
	Fields    fields.Selector // nil: everything; over declared indexes, metadata.name and metadata.namespace
	Limit     int64           // 0: no limit; more objects than this are cut off, without a continue token
}

// List decodes the selected objects of the kind gvk (the item's kind, not the list's)
// into a typed list, *unstructured.UnstructuredList or
// *metav1.PartialObjectMetadataList, replacing its items: private copies, sorted by namespace and name,
// all as of one instant, whose resourceVersion is the list's. It waits
// and fails like Get.
func (c *Cache) List(ctx context.Context, gvk schema.GroupVersionKind, opts ListOptions, into runtime.Object) error {
	return ErrNotCached
}

// Entry is one object as the cache holds it: immutable, and valid however long it is kept.
type Entry struct{}

// Peek returns what the cache holds under the key now. It waits for nothing, and reports false when there is
// no such object or the kind is not cached.
func (c *Cache) Peek(gvk schema.GroupVersionKind, key types.NamespacedName) (Entry, bool) {
	return Entry{}, false
}

// ResourceVersion is the object's revision.
func (e Entry) ResourceVersion() string { return "" }

// UID is the object's UID.
func (e Entry) UID() types.UID { return "" }

// ManagedFields returns a private copy of the managedFields entries that were kept: those of the managers
// in Config.FieldOwners, or all with KeepManagedFields.
func (e Entry) ManagedFields() []metav1.ManagedFieldsEntry { return nil }

// Decode decodes a private copy, as Get does.
func (e Entry) Decode(into runtime.Object) error { return nil }

// WaitRevision waits until the cache has surely seen revision rv of the kind: every change up to it, in
// the scope that holds the namespace (empty: in all of the kind's scope), is in
// the store. It never waits longer than ctx. An rv that is no number is an
// error at once.
func (c *Cache) WaitRevision(ctx context.Context, gvk schema.GroupVersionKind, namespace, rv string) error {
	return nil
}

// WaitGone waits until the cache holds no object of that UID under the key. It
// never waits longer than ctx.
func (c *Cache) WaitGone(ctx context.Context, gvk schema.GroupVersionKind, key types.NamespacedName, uid types.UID) error {
	return nil
}
