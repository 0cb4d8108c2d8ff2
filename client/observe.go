package client

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Observer is called before a write goes to the [Gate], and the function that it returns when the
// write has ended, however it did. The context that it returns is that of the request. Writes that
// are not made because they would change nothing are not observed.
type Observer func(ctx context.Context, r Request) (context.Context, func(Written))

// Written is what became of a write.
type Written struct {
	// Name is the object's, also when the server made it; empty for a collection and when the
	// write failed before there was one.
	Name string
	// Version is the resourceVersion that the write led to, if the answer says it.
	Version string
	// Body is what was sent, in the form that ContentType says. It must not be changed or kept.
	Body        []byte
	ContentType string
	// Err is why the write failed.
	Err error
}

// observed tells the observer of a write that is about to go out. What it returns must be called
// with the object as the server has it now, nil if the answer does not say it.
func (c *Client) observed(ctx context.Context, t target, in call) (context.Context, func(metav1.Object, error)) {
	if c.observe == nil {
		return ctx, func(metav1.Object, error) {}
	}
	r := in.Request
	r.Resource, r.Namespace, r.Name = t.mapping.Resource, t.key.Namespace, t.key.Name
	ctx, ended := c.observe(ctx, r)
	return ctx, func(now metav1.Object, err error) {
		w := Written{Name: t.key.Name, Body: in.body, ContentType: in.contentType, Err: err}
		if now != nil {
			w.Name, w.Version = now.GetName(), now.GetResourceVersion()
		}
		ended(w)
	}
}
