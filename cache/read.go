package cache

import (
	"context"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Get decodes one object into a private copy: a typed object, *unstructured.Unstructured or
// *metav1.PartialObjectMetadata. It waits for the first listing that holds the namespace. Errors: ErrNotCached;
// NotFound as the API server words it; the end of ctx together with what the watch last failed with.
func (c *Cache) Get(ctx context.Context, gvk schema.GroupVersionKind, key types.NamespacedName, into runtime.Object) error {
	s, err := c.lookup(gvk)
	if err != nil {
		return err
	}
	if err := s.ready(ctx, key.Namespace); err != nil {
		return err
	}
	o := s.get(joinKey(key))
	if o == nil {
		if err := s.covered(key.Namespace); err != nil {
			return err // it was left meanwhile
		}
		return apierrors.NewNotFound(s.resource(), key.Name)
	}
	return s.form.decode(o, into)
}

// Peek returns what the cache holds under the key now. It waits for nothing, and reports false when there is no
// such object or the kind is not cached.
func (c *Cache) Peek(gvk schema.GroupVersionKind, key types.NamespacedName) (Entry, bool) {
	s, err := c.lookup(gvk)
	if err != nil || !s.covers(key.Namespace) {
		return Entry{}, false
	}
	o := s.get(joinKey(key))
	return Entry{object: o, form: s.form}, o != nil
}

// ListOptions selects what List returns. The zero value selects everything.
type ListOptions struct {
	Namespace string // empty: all namespaces of the kind's scope

	// Labels and Fields select objects; nil selects everything. Labels use an index whenever a requirement says
	// which values, or which keys, an object must have. Fields are the declared indexes, metadata.name and
	// metadata.namespace; any other field is looked up in every object by its JSON path, which is slow and
	// counted in setpoint_cache_scans_total.
	Labels labels.Selector
	Fields fields.Selector

	// Limit cuts the list off; 0 means no limit. There is no continue token: remainingItemCount says how many
	// objects are missing.
	Limit int64
}

// List decodes the selected objects of the kind gvk (the item's kind, not the list's) into a typed list,
// *unstructured.UnstructuredList or *metav1.PartialObjectMetadataList, replacing its items: private copies,
// sorted by "namespace/name", all as of one instant, whose resourceVersion is the list's. It waits and fails
// like Get.
func (c *Cache) List(ctx context.Context, gvk schema.GroupVersionKind, opts ListOptions, into runtime.Object) error {
	s, err := c.lookup(gvk)
	if err != nil {
		return err
	}
	if err := s.ready(ctx, opts.Namespace); err != nil {
		return err
	}
	q, err := newQuery(s, opts)
	if err != nil {
		return fmt.Errorf("list %s: %w", gvk.GroupKind(), err)
	}
	objects, version, err := q.run()
	if err != nil {
		return fmt.Errorf("list %s: %w", gvk.GroupKind(), err)
	}
	if err := s.covered(opts.Namespace); err != nil {
		return err // it was left meanwhile
	}
	var remaining *int64
	if n := int64(len(objects)) - opts.Limit; opts.Limit > 0 && n > 0 {
		objects, remaining = objects[:opts.Limit], &n
	}
	if err := s.form.decodeList(objects, into); err != nil {
		return err
	}
	list, err := meta.ListAccessor(into)
	if err != nil {
		return err
	}
	list.SetResourceVersion(version)
	list.SetContinue("")
	list.SetRemainingItemCount(remaining)
	return nil
}

// decodeList fills a list's items.
func (f *form) decodeList(objects []*object, into runtime.Object) error {
	switch into := into.(type) {
	case *metav1.PartialObjectMetadataList:
		into.SetGroupVersionKind(f.gvk.GroupVersion().WithKind(f.gvk.Kind + "List"))
		into.Items = make([]metav1.PartialObjectMetadata, len(objects))
		return decodeEach(f, objects, func(i int) runtime.Object { return &into.Items[i] })
	case *unstructured.UnstructuredList:
		if into.Object == nil {
			into.Object = map[string]any{}
		}
		into.SetGroupVersionKind(f.gvk.GroupVersion().WithKind(f.gvk.Kind + "List"))
		into.Items = make([]unstructured.Unstructured, len(objects))
		return decodeEach(f, objects, func(i int) runtime.Object { return &into.Items[i] })
	}
	pointer, err := meta.GetItemsPtr(into)
	if err != nil {
		return fmt.Errorf("list into %T: %w", into, err)
	}
	items := reflect.ValueOf(pointer).Elem()
	element, pointers := items.Type().Elem(), false
	if element.Kind() == reflect.Pointer {
		element, pointers = element.Elem(), true
	}
	if err := f.accepts(element); err != nil {
		return err
	}
	items.Set(reflect.MakeSlice(items.Type(), len(objects), len(objects)))
	return decodeEach(f, objects, func(i int) runtime.Object {
		if !pointers {
			return items.Index(i).Addr().Interface().(runtime.Object)
		}
		items.Index(i).Set(reflect.New(element))
		return items.Index(i).Interface().(runtime.Object)
	})
}

func decodeEach(f *form, objects []*object, item func(i int) runtime.Object) error {
	for i, o := range objects {
		if err := f.decode(o, item(i)); err != nil {
			return err
		}
	}
	return nil
}
