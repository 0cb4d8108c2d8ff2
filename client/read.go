package client

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/cache"
)

// Get reads one object into obj, from the cache when it covers the kind and the namespace, else
// from the server. A missing object is an error that apierrors.IsNotFound knows.
func (c *Client) Get(ctx context.Context, key types.NamespacedName, obj Object, opts ...GetOption) error {
	var o getOptions
	for _, opt := range opts {
		opt.toGet(&o)
	}
	gvk, err := KindOf(obj, c.scheme)
	if err != nil {
		return fmt.Errorf("get %s: %w", key, err)
	}
	t, err := c.target(gvk, key)
	if err == nil {
		err = t.complete(false)
	}
	if err != nil {
		return fmt.Errorf("get: %w", err)
	}
	source, err := c.readCache(ctx, t, o, func(ctx context.Context) error {
		return c.cache.Get(ctx, t.gvk, t.key, obj)
	})
	switch source {
	case fromServer:
		err = c.getLive(ctx, t, "", obj)
	case insteadOfCache:
		err = c.getInstead(ctx, t, obj)
	}
	return explain("get", t, err)
}

// getLive reads the target, or a subresource of it, into obj.
func (c *Client) getLive(ctx context.Context, t target, subresource string, obj Object) error {
	gvk, err := KindOf(obj, c.scheme)
	if err != nil {
		return err
	}
	got, err := c.send(ctx, t, call{
		Request: Request{Verb: "get", Subresource: subresource},
		accept:  c.codec.accept(obj, gvk),
	})
	if err != nil {
		return err
	}
	fresh, same, err := c.codec.decode(got.body, got.contentType, obj, gvk)
	if err != nil {
		return err
	}
	if !same {
		return fmt.Errorf("the server did not answer with a %v", gvk)
	}
	assign(obj, fresh)
	return nil
}

// List reads the selected objects into list, from the cache when it covers the kind and the
// namespace, else from the server.
func (c *Client) List(ctx context.Context, list ObjectList, opts ...ListOption) error {
	var o listOptions
	for _, opt := range opts {
		opt.toList(&o)
	}
	gvk, err := itemKindOf(list, c.scheme)
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	t, err := c.target(gvk, types.NamespacedName{Namespace: o.namespace})
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	o.live = o.live || o.token != ""
	source, err := c.readCache(ctx, t, o.getOptions, func(ctx context.Context) error {
		return c.cache.List(ctx, t.gvk, cache.ListOptions{
			Namespace: t.key.Namespace, Labels: o.labelSelector(), Fields: o.fieldSelector(), Limit: o.limit,
		}, list)
	})
	switch source {
	case fromServer:
		err = c.listLive(ctx, t, o, list)
	case insteadOfCache:
		err = c.listInstead(ctx, t, o, list)
	}
	return explain("list", t, err)
}

func (c *Client) listLive(ctx context.Context, t target, o listOptions, list ObjectList) error {
	gvk := t.gvk
	gvk.Kind += "List"
	if o.selectsNothing() {
		fresh := newLike(list)
		fresh.GetObjectKind().SetGroupVersionKind(gvk)
		assign(list, fresh)
		return nil
	}
	got, err := c.send(ctx, t, call{
		Request: Request{Verb: "list"},
		params:  o.params(),
		accept:  c.codec.accept(list, gvk),
	})
	if err != nil {
		return err
	}
	fresh, same, err := c.codec.decode(got.body, got.contentType, list, gvk)
	if err != nil {
		return err
	}
	if !same {
		return fmt.Errorf("the server did not answer with a %v", gvk)
	}
	assign(list, fresh)
	return nil
}

// labelSelector joins the label selectors: an object must match them all.
func (o *listOptions) labelSelector() labels.Selector {
	if len(o.labels) == 1 {
		return o.labels[0]
	}
	all := labels.NewSelector()
	for _, selector := range o.labels {
		requirements, selectable := selector.Requirements()
		if !selectable {
			return labels.Nothing()
		}
		all = all.Add(requirements...)
	}
	return all
}

func (o *listOptions) fieldSelector() fields.Selector {
	return fields.AndSelectors(o.fields...)
}

// selectsNothing recognises the selector that matches nothing: in a URL it would look like the one
// that matches everything.
func (o *listOptions) selectsNothing() bool {
	_, selectable := o.labelSelector().Requirements()
	return !selectable
}

func (o *listOptions) params() url.Values {
	params := url.Values{}
	if selector := o.labelSelector(); !selector.Empty() {
		params.Set("labelSelector", selector.String())
	}
	if selector := o.fieldSelector(); !selector.Empty() {
		params.Set("fieldSelector", selector.String())
	}
	if o.limit > 0 {
		params.Set("limit", strconv.FormatInt(o.limit, 10))
	}
	if o.token != "" {
		params.Set("continue", o.token)
	}
	return params
}
