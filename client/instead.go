package client

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// This file reads from the server what the cache would show if it were up to date: no object
// outside the cache's scope, and selected by the cache's indexes, which the server does not know.

func (c *Client) getInstead(ctx context.Context, t target, obj Object) error {
	fresh := newLike(obj).(Object)
	fresh.GetObjectKind().SetGroupVersionKind(t.gvk)
	if err := c.getLive(ctx, t, "", fresh); err != nil {
		return err
	}
	shows, err := c.shows(ctx, t, fresh)
	if err != nil {
		return err
	}
	if !shows {
		return apierrors.NewNotFound(t.mapping.Resource.GroupResource(), t.key.Name)
	}
	c.own.expectRead(t.gvk, fresh)
	assign(obj, fresh)
	return nil
}

// shows reports whether the cache would show an object that was read live. What cannot be decided here, the server is
// asked. A kind whose watch was closed meanwhile has no scope any more.
func (c *Client) shows(ctx context.Context, t target, obj Object) (bool, error) {
	if scope, watched := c.cache.Scope(t.gvk); !watched || scope.MetadataOnly && !isMetadata(obj) {
		return true, nil // no read of the cache's
	}
	matches, sure := c.cache.Matches(t.gvk, obj)
	if sure {
		return matches, nil
	}
	found, err := c.inScope(ctx, t)
	return slices.ContainsFunc(found, func(o Object) bool { return o.GetUID() == obj.GetUID() }), err
}

func (c *Client) listInstead(ctx context.Context, t target, o listOptions, list ObjectList) error {
	scope, watched := c.cache.Scope(t.gvk)
	if !watched || scope.MetadataOnly && !isMetadata(list) {
		return c.listLive(ctx, t, o, list) // no read of the cache's
	}
	from, byIndex := list, indexed(o.fieldSelector())
	limit := o.limit
	if !byIndex.Empty() {
		// An index is computed from the object in the form that the cache keeps.
		var err error
		if from, err = c.newList(t.gvk, scope.MetadataOnly); err != nil {
			return err
		}
		o.fields, o.limit = nil, 0
	}
	all, err := c.listScope(ctx, t, o, from)
	if err != nil {
		return err
	}
	kept, err := c.selected(t, all.items, byIndex, list)
	if err != nil {
		return err
	}
	remaining := all.missing
	if n := int64(len(kept)) - limit; limit > 0 && n > 0 {
		kept, remaining = kept[:limit], remaining+n
	}
	fresh := newLike(list).(ObjectList)
	fresh.GetObjectKind().SetGroupVersionKind(t.gvk.GroupVersion().WithKind(t.gvk.Kind + "List"))
	fresh.SetResourceVersion(all.revision)
	if remaining > 0 {
		fresh.SetRemainingItemCount(&remaining)
	}
	if err := meta.SetList(fresh, kept); err != nil {
		return err
	}
	assign(list, fresh)
	return nil
}

// selected returns the items that the selector selects by the cache's indexes, in the representation that list holds.
func (c *Client) selected(t target, items []Object, byIndex fields.Selector, list ObjectList) (kept []runtime.Object, err error) {
	for _, obj := range items {
		if !byIndex.Empty() {
			if ok, err := c.cache.Selects(t.gvk, byIndex, obj); err != nil {
				return nil, err
			} else if !ok {
				continue
			}
		}
		item, err := convert(obj, list)
		if err != nil {
			return nil, err
		}
		kept = append(kept, item)
	}
	return kept, nil
}

// listing is what the server has within the cache's scope.
type listing struct {
	items    []Object // sorted as the cache does
	revision string   // the oldest of its parts
	missing  int64    // at least so many more there are than the limit of a part allowed
}

// listScope lists what the options select within the cache's scope: with its selectors, and in its namespaces one by one,
// since more may be forbidden. The items are of the kind that from holds.
func (c *Client) listScope(ctx context.Context, t target, o listOptions, from ObjectList) (listing, error) {
	scope, watched := c.cache.Scope(t.gvk)
	if !watched || !t.namespaced() {
		scope.Namespaces = []string{""}
	}
	if t.key.Namespace != "" {
		scope.Namespaces = []string{t.key.Namespace}
	}
	if scope.Labels != nil {
		o.labels = append(slices.Clip(o.labels), scope.Labels)
	}
	if scope.Fields != nil {
		o.fields = append(slices.Clip(o.fields), scope.Fields)
	}
	var all listing
	for _, namespace := range scope.Namespaces {
		t.key = types.NamespacedName{Namespace: namespace}
		part := newLike(from).(ObjectList)
		part.GetObjectKind().SetGroupVersionKind(t.gvk.GroupVersion().WithKind(t.gvk.Kind + "List"))
		if err := c.listLive(ctx, t, o, part); err != nil {
			return listing{}, err
		}
		all.revision = earlier(all.revision, part.GetResourceVersion())
		if n := part.GetRemainingItemCount(); n != nil {
			all.missing += *n
		} else if part.GetContinue() != "" {
			all.missing++
		}
		err := meta.EachListItem(part, func(item runtime.Object) error {
			obj, ok := item.(Object)
			if !ok {
				return fmt.Errorf("%T is no object", item)
			}
			c.own.expectRead(t.gvk, obj)
			all.items = append(all.items, obj)
			return nil
		})
		if err != nil {
			return listing{}, err
		}
	}
	slices.SortStableFunc(all.items, func(a, b Object) int { return strings.Compare(KeyOf(a).String(), KeyOf(b).String()) })
	return all, nil
}

// inScope returns the metadata of what the server has under the target's key, or all keys of a collection, within the
// cache's scope.
func (c *Client) inScope(ctx context.Context, t target) ([]Object, error) {
	o := listOptions{}
	if t.key.Name != "" {
		o.fields = []fields.Selector{fields.OneTermEqualSelector("metadata.name", t.key.Name)}
	}
	all, err := c.listScope(ctx, t, o, &metav1.PartialObjectMetadataList{})
	return all.items, err
}

// indexed returns the selector if the server may not know all of it, else one that selects
// everything.
func indexed(selector fields.Selector) fields.Selector {
	for _, r := range selector.Requirements() {
		if r.Field != "metadata.name" && r.Field != "metadata.namespace" {
			return selector
		}
	}
	return fields.Everything()
}

// newList returns an empty list of the kind: of metadata or of the scheme's Go type, else unstructured.
func (c *Client) newList(gvk schema.GroupVersionKind, metadataOnly bool) (ObjectList, error) {
	listKind := gvk.GroupVersion().WithKind(gvk.Kind + "List")
	if metadataOnly {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(listKind)
		return list, nil
	}
	if !c.scheme.Recognizes(gvk) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(listKind)
		return list, nil
	}
	obj, err := c.scheme.New(listKind)
	if err != nil {
		return nil, fmt.Errorf("make a %s: %w", listKind.Kind, err)
	}
	list, ok := obj.(ObjectList)
	if !ok {
		return nil, fmt.Errorf("%T is no list", obj)
	}
	return list, nil
}

// convert returns an item in the representation that the list holds.
func convert(item runtime.Object, list ObjectList) (runtime.Object, error) {
	switch list.(type) {
	case *metav1.PartialObjectMetadataList:
		if isMetadata(item) {
			return item, nil
		}
		accessor, err := meta.Accessor(item)
		if err != nil {
			return nil, err
		}
		partial := meta.AsPartialObjectMetadata(accessor)
		partial.SetGroupVersionKind(item.GetObjectKind().GroupVersionKind())
		return partial, nil
	case *unstructured.UnstructuredList:
		if !isTyped(item) {
			return item, nil
		}
		tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(item)
		if err != nil {
			return nil, err
		}
		return &unstructured.Unstructured{Object: tree}, nil
	}
	return item, nil
}
