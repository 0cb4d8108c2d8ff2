package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Delete deletes the object, and leaves obj as it is. If obj has a UID, only the object of that
// UID is deleted: otherwise a stale read could delete a successor of the same name.
func (c *Client) Delete(ctx context.Context, obj Object, opts ...DeleteOption) error {
	var o deleteOptions
	for _, opt := range opts {
		opt.toDelete(&o)
	}
	t, err := c.targetOf(obj, false)
	if err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	if err := o.setPreconditions(obj); err != nil {
		return explain("delete", t, err)
	}
	in, err := o.call("delete")
	if err != nil {
		return explain("delete", t, err)
	}
	w := change{call: in, what: "delete", uid: obj.GetUID(), revision: obj.GetResourceVersion()}
	ctx, ended := c.observed(ctx, t, in)
	got, err := c.send(ctx, t, in)
	if errors.Is(err, ErrNotSent) && !got.sent {
		ended(nil, nil)
		return nil
	}
	ended(nil, err)
	if err != nil {
		c.failed(t, w, got.sent, err)
		return explain("delete", t, err)
	}
	if !in.DryRun {
		c.deleted(t, w, got)
	}
	return nil
}

// deleted remembers a deletion that the server has answered: with the object, at the revision of
// its deletion or of its being marked for it, or with a Status that names the UID.
func (c *Client) deleted(t target, w change, got answer) {
	var obj metav1.PartialObjectMetadata
	var status metav1.Status
	switch {
	case json.Unmarshal(got.body, &obj) == nil && obj.Kind != "Status" && obj.Name == t.key.Name && obj.ResourceVersion != "":
		c.own.wrote(t, &obj, false, answer{})
	case json.Unmarshal(got.body, &status) == nil && status.Details != nil && status.Details.UID != "":
		c.own.deleted(t, status.Details.UID)
	case w.uid != "":
		c.own.deleted(t, w.uid)
	default:
		c.own.unsure(t)
	}
}

// DeleteAllOf deletes the selected objects of obj's kind, in one namespace if the kind has
// namespaces.
func (c *Client) DeleteAllOf(ctx context.Context, obj Object, opts ...DeleteAllOfOption) error {
	var o deleteAllOfOptions
	for _, opt := range opts {
		opt.toDeleteAllOf(&o)
	}
	const what = "delete all of"
	gvk, err := KindOf(obj, c.scheme)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	t, err := c.target(gvk, types.NamespacedName{Namespace: o.list.namespace})
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if t.namespaced() && t.key.Namespace == "" {
		return explain(what, t, errors.New("the API deletes in one namespace at a time: pass InNamespace"))
	}
	if o.list.selectsNothing() {
		return nil
	}
	in, err := o.call("deletecollection")
	if err != nil {
		return explain(what, t, err)
	}
	in.params = o.list.params()
	in.accept = runtime.ContentTypeJSON + asMetadataList + "," + runtime.ContentTypeJSON // the answer is a list of what was there
	ctx, ended := c.observed(ctx, t, in)
	got, err := c.send(ctx, t, in)
	if errors.Is(err, ErrNotSent) && !got.sent {
		ended(nil, nil)
		return nil
	}
	ended(nil, err)
	// The answer does not say which objects are gone and which are only marked, nor at which
	// revision, so that is asked for when somebody reads.
	if got.sent && !in.DryRun && (err == nil || outcomeUnknown(err)) {
		c.own.unsure(t)
	}
	return explain(what, t, err)
}

// setPreconditions makes the deletion one of obj's UID, and of its resourceVersion if that is
// asked for.
func (o *deleteOptions) setPreconditions(obj Object) error {
	if o.Preconditions == nil && obj.GetUID() != "" {
		uid := obj.GetUID()
		o.Preconditions = &metav1.Preconditions{UID: &uid}
	}
	if !o.ifUnchanged {
		return nil
	}
	revision := obj.GetResourceVersion()
	if revision == "" {
		return errors.New("IfUnchanged needs an object with a resourceVersion: read it first")
	}
	if o.Preconditions == nil {
		o.Preconditions = &metav1.Preconditions{}
	}
	o.Preconditions.ResourceVersion = &revision
	return nil
}

// call is the deletion's request. Its body is JSON whatever the kind, as custom resources need it,
// and the answer is wanted as little more than a revision.
func (o *deleteOptions) call(verb string) (call, error) {
	o.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}
	body, err := json.Marshal(o.DeleteOptions)
	if err != nil {
		return call{}, fmt.Errorf("encode the options: %w", err)
	}
	return call{
		Request:     Request{Verb: verb, DryRun: len(o.DryRun) > 0},
		accept:      runtime.ContentTypeJSON + asMetadata + "," + runtime.ContentTypeJSON,
		contentType: runtime.ContentTypeJSON,
		body:        body,
	}, nil
}
