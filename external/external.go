// Package external makes what lives outside of the cluster, such as a DNS record, a bucket or a database at a provider,
// once for each object that asks for it, and removes it again.
//
// A provider's answer can get lost, and a process can die between the call and the note of its result; neither may lead to
// a second resource, nor to one that nobody remembers. So the intent is written to the object before the call, and the
// result after it, both in one annotation:
//
//	example.com/bucket: pending 5f1c…-1042     written first; the rest is the token of this attempt
//	example.com/bucket: created bkt-7781       the rest is the provider's name of it
//
// An attempt that ended in between is found by its token, and taken up instead of made again. The intent is written under
// an optimistic lock, so a reconcile that works from an old copy of the object fails with a conflict before it calls the
// provider.
//
// The finalizer comes first (package finalizer), then [Ensure]; a cleanup calls [Remove], then the finalizer goes. All
// functions set the object to the server's answer when they write to it, so local changes to it come after.
package external

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/setpoint-dev/setpoint/client"
)

// Resource is something outside, and how its provider is asked for it.
type Resource struct {
	// Annotation keeps the record, in the form "example.com/bucket". An object may have several resources, each with an
	// annotation of its own.
	Annotation string
	// Create makes the resource and returns the provider's name of it, which is not empty. It gives the provider the token,
	// as an idempotency key or as a tag that Find looks for. It is called again, with the same token, after it has failed.
	Create func(ctx context.Context, token string) (id string, err error)
	// Find looks for what Create has made with that token. Nil: the provider answers a Create whose token it knows with
	// what it made then.
	Find func(ctx context.Context, token string) (id string, found bool, err error)
	// Delete removes the resource. One that is not there is no error. Only Remove needs it.
	Delete func(ctx context.Context, id string) error
}

// The two states of a record.
const (
	pending = "pending "
	created = "created "
)

// ID returns the provider's name of what is recorded as created.
func (r Resource) ID(obj client.Object) (id string, ok bool) {
	return strings.CutPrefix(obj.GetAnnotations()[r.Annotation], created)
}

// Ensure makes the resource unless the object records it, and returns the provider's name of it. An error of the provider
// leaves the attempt pending; the next call takes it up.
func Ensure(ctx context.Context, c *client.Client, obj client.Object, r Resource) (id string, err error) {
	if id, ok := r.ID(obj); ok {
		return id, nil
	}
	token, resumed, err := r.token(obj)
	if err != nil {
		return "", err
	}
	if !resumed {
		if err := r.record(ctx, c, obj, pending+token, client.MergeFromWithOptimisticLock); err != nil {
			return "", fmt.Errorf("note that %s is about to be created: %w", r.Annotation, err)
		}
	}
	if id, err = r.make(ctx, token, resumed); err != nil {
		return "", err
	}
	if err := r.record(ctx, c, obj, created+id, client.MergeFrom); err != nil {
		return "", fmt.Errorf("note that %s is created as %s: %w", r.Annotation, id, err)
	}
	return id, nil
}

// token returns the token of the attempt that the object records, or else of a new one: no other attempt starts from the
// same revision of the object.
func (r Resource) token(obj client.Object) (token string, resumed bool, err error) {
	record, ok := obj.GetAnnotations()[r.Annotation]
	if !ok {
		if obj.GetUID() == "" || obj.GetResourceVersion() == "" {
			return "", false, errors.New("the object was not read from the server: it has no UID or no resourceVersion")
		}
		return string(obj.GetUID()) + "-" + obj.GetResourceVersion(), false, nil
	}
	if token, ok = strings.CutPrefix(record, pending); !ok {
		return "", false, fmt.Errorf("annotation %s is %q, which is no record: remove it, or write %q and the provider's name of the resource",
			r.Annotation, record, created)
	}
	return token, true, nil
}

// make calls the provider.
func (r Resource) make(ctx context.Context, token string, resumed bool) (string, error) {
	if resumed && r.Find != nil {
		id, found, err := r.Find(ctx, token)
		if err != nil {
			return "", fmt.Errorf("look for %s of an earlier attempt (token %s): %w", r.Annotation, token, err)
		}
		if found {
			return id, nil
		}
	}
	id, err := r.Create(ctx, token)
	if err == nil && id == "" {
		err = errors.New("the provider returned no name")
	}
	if err != nil {
		return "", fmt.Errorf("create %s (token %s): %w", r.Annotation, token, err)
	}
	return id, nil
}

// Remove deletes the resource, also that of an attempt whose result is not known, and then its record. After that Ensure
// would make another one. It does nothing when nothing is recorded.
func Remove(ctx context.Context, c *client.Client, obj client.Object, r Resource) error {
	if _, ok := obj.GetAnnotations()[r.Annotation]; !ok {
		return nil
	}
	id, exists, err := r.locate(ctx, obj)
	if err != nil {
		return err
	}
	if exists {
		if err := r.Delete(ctx, id); err != nil {
			return fmt.Errorf("delete %s %s: %w", r.Annotation, id, err)
		}
	}
	if err := client.IgnoreNotFound(r.record(ctx, c, obj, "", client.MergeFrom)); err != nil {
		return fmt.Errorf("note that %s %s is deleted: %w", r.Annotation, id, err)
	}
	return nil
}

// locate returns the provider's name of what may exist.
func (r Resource) locate(ctx context.Context, obj client.Object) (id string, exists bool, err error) {
	if id, ok := r.ID(obj); ok {
		return id, true, nil
	}
	token, _, err := r.token(obj)
	if err != nil {
		return "", false, err
	}
	if r.Find == nil { // only a Create with the token tells the name
		id, err = r.make(ctx, token, true)
		return id, err == nil, err
	}
	if id, exists, err = r.Find(ctx, token); err != nil {
		return "", false, fmt.Errorf("look for %s of an earlier attempt (token %s): %w", r.Annotation, token, err)
	}
	return id, exists, nil
}

// record writes the annotation, or removes it, and leaves obj as it was if that fails.
func (r Resource) record(ctx context.Context, c *client.Client, obj client.Object, value string, from func(client.Object) client.Patch) error {
	base := obj.DeepCopyObject().(client.Object)
	annotations := map[string]string{r.Annotation: value}
	for name, text := range base.GetAnnotations() {
		if name != r.Annotation {
			annotations[name] = text
		}
	}
	if value == "" {
		delete(annotations, r.Annotation)
	}
	obj.SetAnnotations(annotations)
	err := c.Patch(ctx, obj, from(base))
	if err != nil {
		obj.SetAnnotations(base.GetAnnotations())
	}
	return err
}
