package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/apply"
)

// Apply declares the fields of obj as wanted, by server-side apply: the object is created if it
// does not exist, fields that this owner applied before and that are missing now are removed, and
// fields of others stay. What a typed obj declares is what [apply.From] takes from it. If obj has
// a UID, only the object of that UID is changed, and none is created.
//
// An Apply that would change nothing, judged by the cache, is not sent: obj is then set to the
// cached object.
func (c *Client) Apply(ctx context.Context, obj Object, opts ...ApplyOption) error {
	var o writeOptions
	for _, opt := range opts {
		opt.toApply(&o)
	}
	t, err := c.targetOf(obj, false)
	if err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	want, err := apply.From(obj, t.gvk)
	if err != nil {
		return explain("apply", t, err)
	}
	return c.apply(ctx, t, "", obj, obj, want, o)
}

// apply applies want to the target or a subresource, and reads the answer into into.
func (c *Client) apply(
	ctx context.Context, t target, subresource string, obj, into Object, want *unstructured.Unstructured, o writeOptions,
) error {
	what := verbOf("apply", subresource)
	if err := o.check(t, obj); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if o.owner == "" {
		o.owner = c.fieldOwner
	}
	if o.owner == "" {
		return explain(what, t, errors.New("an apply needs a field owner: set Config.FieldOwner or pass FieldOwner"))
	}
	if o.ifUnchanged {
		want.SetResourceVersion(obj.GetResourceVersion())
	}
	id := application{t.mapping.Resource, t.key, subresource, o.owner}
	whole := into == obj && !o.dryRun
	if whole && c.isApplied(t, id, into, want) {
		return c.skip("apply", t)
	}
	body, err := json.Marshal(want)
	if err != nil {
		return explain(what, t, fmt.Errorf("encode: %w", err))
	}
	w := change{
		call: call{
			Request:     Request{Verb: "patch", Subresource: subresource, DryRun: o.dryRun},
			params:      o.params(""),
			contentType: string(types.ApplyPatchType),
			body:        body,
		},
		what: what, into: into, part: into != obj, uid: obj.GetUID(), revision: want.GetResourceVersion(),
	}
	if whole {
		w.applied = func(fresh Object, got answer) { c.rememberApplied(t, id, want, fresh, got) }
	}
	return c.write(ctx, t, w)
}

// isApplied reports whether applying want would surely change nothing: the cache has everything
// this client wrote, and either the cached object has all wanted values and says that the owner
// applied just these fields, or it is in the state to which applying the same came before. It then
// sets obj to the cached object.
func (c *Client) isApplied(t target, id application, obj Object, want *unstructured.Unstructured) bool {
	if c.cache == nil || !c.settled(t) {
		return false
	}
	entry, ok := c.cache.Peek(t.gvk, t.key)
	if !ok || entry.Transformed() || !fits(want.GetUID(), entry.UID()) || !fits(want.GetResourceVersion(), entry.ResourceVersion()) {
		return false
	}
	fields := appliedFields(entry.ManagedFields(), id.owner, want.GetAPIVersion(), id.subresource)
	if fields == nil {
		return false
	}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(t.gvk)
	if err := entry.Decode(live); err != nil {
		return false
	}
	if !declares(fields, want.Object, live.Object) {
		d, ok := digestOf(fields, want.Object, live.Object)
		if !ok || !c.applied.is(id, d) {
			return false
		}
	}
	cached := newLike(obj)
	cached.GetObjectKind().SetGroupVersionKind(t.gvk)
	if err := entry.Decode(cached); err != nil {
		return false
	}
	setKind(cached, t.gvk)
	assign(obj, cached)
	return true
}

// settled reports whether the cache has all that this client wrote under the target's key.
func (c *Client) settled(t target) bool {
	for _, w := range c.own.in(t.mapping.Resource.GroupResource(), t.key) {
		if !c.own.reached(t.gvk, w) {
			return false
		}
	}
	return true
}

// fits reports whether a precondition holds; an empty one always does.
func fits[S ~string](want, have S) bool { return want == "" || want == have }
