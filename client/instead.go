package client

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// This file reads from the server what the cache would show if it were up to date: no object
// outside the cache's scope, and selected by the cache's indexes, which the server does not know.

func (c *Client) getInstead(ctx context.Context, t target, obj Object) error {
	fresh := newLike(obj).(Object)
	fresh.GetObjectKind().SetGroupVersionKind(t.gvk)
	if err := c.getLive(ctx, t, "", fresh); err != nil {
		return err
	}
	if c.outside(t, fresh) {
		return apierrors.NewNotFound(t.mapping.Resource.GroupResource(), t.key.Name)
	}
	assign(obj, fresh)
	return nil
}

func (c *Client) listInstead(ctx context.Context, t target, o listOptions, list ObjectList) error {
	byIndex := indexed(o.fieldSelector())
	if byIndex.Empty() {
		if err := c.listLive(ctx, t, o, list); err != nil {
			return err
		}
		return c.keep(t, list, list, byIndex, 0)
	}
	// An index is computed from the whole object in the form that the scheme gives it.
	whole, err := c.newList(t.gvk)
	if err != nil {
		return err
	}
	limit := o.limit
	o.fields, o.limit = nil, 0
	if err := c.listLive(ctx, t, o, whole); err != nil {
		return err
	}
	return c.keep(t, whole, list, byIndex, limit)
}

// keep puts those items of from into list that the cache would show and the selector selects.
func (c *Client) keep(t target, from, list ObjectList, selector fields.Selector, limit int64) error {
	items, err := meta.ExtractList(from)
	if err != nil {
		return err
	}
	kept := []runtime.Object{}
	for _, item := range items {
		if obj, ok := item.(Object); !ok || c.outside(t, obj) || limit > 0 && int64(len(kept)) == limit {
			continue
		}
		if !selector.Empty() {
			if selected, err := c.cache.Selects(t.gvk, selector, item); err != nil {
				return err
			} else if !selected {
				continue
			}
		}
		if item, err = convert(item, list); err != nil {
			return err
		}
		kept = append(kept, item)
	}
	list.GetObjectKind().SetGroupVersionKind(t.gvk.GroupVersion().WithKind(t.gvk.Kind + "List"))
	list.SetResourceVersion(from.GetResourceVersion())
	return meta.SetList(list, kept)
}

// outside reports whether the cache would never show the object. A kind whose watch was closed
// meanwhile has no scope any more.
func (c *Client) outside(t target, obj Object) bool {
	return c.cache.Covers(t.gvk, "") && !c.cache.Matches(t.gvk, obj)
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

// newList returns an empty list of the kind: of the scheme's Go type, else unstructured.
func (c *Client) newList(gvk schema.GroupVersionKind) (ObjectList, error) {
	listKind := gvk.GroupVersion().WithKind(gvk.Kind + "List")
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
