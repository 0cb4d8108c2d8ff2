package cache

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
)

// Scope is what the cache shows of a kind, in the terms of a request: to be asked for it once in each namespace, the
// server answers what the cache would show if it were up to date.
type Scope struct {
	Namespaces []string // sorted; "" stands for all of them, and for a kind that has none
	Labels     labels.Selector
	Fields     fields.Selector // this and Labels: nil selects everything

	MetadataOnly bool // nothing else is kept, or given to index functions
}

// Scope returns the scope of a kind. It reports false when the kind is not watched. Namespaces that are selected by
// label are all of them until they have been listed.
func (c *Cache) Scope(gvk schema.GroupVersionKind) (Scope, bool) {
	s, err := c.lookup(gvk)
	if err != nil {
		return Scope{}, false
	}
	o := s.options
	scope := Scope{Namespaces: []string{""}, Labels: o.Labels, Fields: o.Fields, MetadataOnly: o.MetadataOnly}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if n := s.namespaces; n.limited && !n.unknown && !s.isClusterScoped() {
		scope.Namespaces = slices.Clone(n.names)
	}
	return scope, true
}

// Matches reports whether the cache could ever show the object: its kind is watched and the object lies in the
// namespaces and selectors of the kind's options. It is not sure when a field selector cannot be decided from what obj
// is: metadata alone tell nothing of other fields, and a field that a Go type lacks may have any value at the server.
func (c *Cache) Matches(gvk schema.GroupVersionKind, obj metav1.Object) (matches, sure bool) {
	s, err := c.lookup(gvk)
	if err != nil || !s.covers(obj.GetNamespace()) {
		return false, true
	}
	if o := s.options.Labels; o != nil && !o.Matches(labels.Set(obj.GetLabels())) {
		return false, true
	}
	if s.options.Fields == nil {
		return true, true
	}
	sure = true
	for _, r := range s.options.Fields.Requirements() {
		value, known := fieldOf(obj, r.Field)
		if known && (value == r.Value) != (r.Operator != selection.NotEquals) {
			return false, true
		}
		sure = sure && known
	}
	return true, sure
}

// fieldOf returns the value that the server compares with a field selector, as far as an object at hand tells.
func fieldOf(obj metav1.Object, path string) (value string, known bool) {
	switch path {
	case "metadata.name":
		return obj.GetName(), true
	case "metadata.namespace":
		return obj.GetNamespace(), true
	}
	u, isTree := obj.(*unstructured.Unstructured)
	if !isTree {
		if _, partial := obj.(*metav1.PartialObjectMetadata); partial {
			return "", false
		}
		tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err != nil {
			return "", false
		}
		u = &unstructured.Unstructured{Object: tree}
	}
	found, exists, err := unstructured.NestedFieldNoCopy(u.Object, strings.Split(path, ".")...)
	switch found.(type) {
	case nil:
		// A missing text is empty; a missing number or truth value is compared as the server writes its zero.
		return "", err == nil && !exists && (isTree || hasText(reflect.TypeOf(obj), strings.Split(path, ".")))
	case map[string]any, []any:
		return "", false
	}
	return fmt.Sprint(found), true
}

// hasText reports whether objects of the Go type can have a text at the path of JSON names.
func hasText(t reflect.Type, path []string) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case len(path) == 0:
		return t.Kind() == reflect.String
	case t.Kind() == reflect.Map:
		return hasText(t.Elem(), path[1:])
	case t.Kind() != reflect.Struct:
		return false
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == path[0] && hasText(f.Type, path[1:]) || name == "" && f.Anonymous && hasText(f.Type, path) {
			return true
		}
	}
	return false
}

// Selects reports whether List would select an object by the fields, although it is not from the cache: for a
// reader that goes to the server while the cache is behind, because the server does not know the declared
// indexes. The object must have the form that index functions are given: the scheme's Go type, else unstructured, or metadata
// where nothing else is kept. A transform is made on a copy.
func (c *Cache) Selects(gvk schema.GroupVersionKind, selector fields.Selector, obj runtime.Object) (bool, error) {
	s, err := c.lookup(gvk)
	if err != nil {
		return false, err
	}
	q, err := newQuery(s, ListOptions{Fields: selector})
	if err != nil {
		return false, err
	}
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return false, err
	}
	if q.nothing || q.name != "" && q.name != accessor.GetName() || q.namespace != "" && q.namespace != accessor.GetNamespace() {
		return false, nil
	}
	if change := s.options.Transform; change != nil {
		kept := obj.DeepCopyObject()
		if change(kept) == nil { // else the cache keeps it as it is, too
			obj = kept
		}
	}
	for _, r := range q.indexed {
		if slices.Contains(s.indexes[r.index].values(obj), r.value) != r.equal {
			return false, nil
		}
	}
	if len(q.scanned) == 0 {
		return true, nil
	}
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return false, fmt.Errorf("look up fields of %T: %w", obj, err)
	}
	for _, r := range q.scanned {
		if (fieldValue(tree, r.Field) == r.Value) != (r.Operator != selection.NotEquals) {
			return false, nil
		}
	}
	return true, nil
}
