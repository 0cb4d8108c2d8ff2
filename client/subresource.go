package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/setpoint-dev/setpoint/apply"
)

// Status is the status subresource: short for SubResource("status").
func (c *Client) Status() *SubResource { return c.SubResource("status") }

// SubResource is the subresource of that name of any object: status, scale, eviction, token, and
// so on.
func (c *Client) SubResource(name string) *SubResource { return &SubResource{client: c, name: name} }

// SubResource reads and writes one subresource. Its reads are live. Its methods may be called
// concurrently, though not with the same object.
type SubResource struct {
	client *Client
	name   string
}

// Get reads the subresource of obj into body, which for "status" may be obj itself.
func (s *SubResource) Get(ctx context.Context, obj, body Object) error {
	what := verbOf("get", s.name)
	t, err := s.client.targetOf(obj, false)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return explain(what, t, s.client.getLive(ctx, t, s.name, body))
}

// Create posts body to the subresource of obj, and sets body to the answer if that is of its kind:
// a TokenRequest is, the answer to an Eviction is not.
func (s *SubResource) Create(ctx context.Context, obj, body Object, opts ...CreateOption) error {
	var o writeOptions
	for _, opt := range opts {
		opt.toCreate(&o)
	}
	return s.send(ctx, "create", obj, body, o)
}

// Update replaces the subresource with obj's, or with [SubResourceBody]. A status that the cache
// surely has already is not sent.
func (s *SubResource) Update(ctx context.Context, obj Object, opts ...UpdateOption) error {
	var o writeOptions
	for _, opt := range opts {
		opt.toUpdate(&o)
	}
	body := obj
	if o.body != nil {
		body = o.body
	}
	return s.send(ctx, "update", obj, body, o)
}

// Patch changes the subresource by the patch, computed from obj or from [SubResourceBody]. An
// empty patch is not sent.
func (s *SubResource) Patch(ctx context.Context, obj Object, patch Patch, opts ...PatchOption) error {
	var o writeOptions
	for _, opt := range opts {
		opt.toPatch(&o)
	}
	t, err := s.client.targetOf(obj, false)
	if err != nil {
		return fmt.Errorf("%s: %w", verbOf("patch", s.name), err)
	}
	into := obj
	if o.body != nil {
		into = o.body
	}
	return s.client.patch(ctx, t, s.name, obj, into, patch, o)
}

// Apply declares the fields of obj's status (for another subresource, those of obj or of
// [SubResourceBody]) as wanted, as [Client.Apply] does.
func (s *SubResource) Apply(ctx context.Context, obj Object, opts ...ApplyOption) error {
	var o writeOptions
	for _, opt := range opts {
		opt.toApply(&o)
	}
	what := verbOf("apply", s.name)
	t, err := s.client.targetOf(obj, false)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	into, gvk := obj, t.gvk
	if o.body != nil {
		into = o.body
		if gvk, err = KindOf(into, s.client.scheme); err != nil {
			return explain(what, t, err)
		}
	}
	declare := apply.From
	if s.name == "status" {
		declare = apply.StatusFrom
	}
	want, err := declare(into, gvk)
	if err != nil {
		return explain(what, t, err)
	}
	return s.client.apply(ctx, t, s.name, obj, into, want, o)
}

// send creates or updates the subresource of obj with body.
func (s *SubResource) send(ctx context.Context, verb string, obj, body Object, o writeOptions) error {
	c, what := s.client, verbOf(verb, s.name)
	t, err := c.targetOf(obj, false)
	if err == nil && isMetadata(body) {
		err = errors.New("metadata alone is no object: use Patch, or pass a typed or unstructured object")
	}
	if err == nil {
		err = o.check(t, body)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if s.name == "status" && !o.dryRun && c.sameAsCached(t, body, sameForStatus) {
		return c.skip(what, t)
	}
	gvk, err := KindOf(body, c.scheme)
	if err != nil {
		return explain(what, t, err)
	}
	in := call{Request: Request{Verb: verb, Subresource: s.name, DryRun: o.dryRun}, params: o.params(c.fieldOwner)}
	if in.body, in.contentType, err = c.codec.encode(body, gvk); err != nil {
		return explain(what, t, err)
	}
	return c.write(ctx, t, change{
		call: in, what: what, into: body, part: body != obj, uid: obj.GetUID(), revision: obj.GetResourceVersion(),
	})
}
