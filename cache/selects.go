package cache

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
)

// Selects reports whether List would select an object by the fields, although it is not from the cache: for a
// reader that goes to the server while the cache is behind, because the server does not know the declared
// indexes. The object must have the form that index functions are given: the scheme's Go type, else
// unstructured.
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
