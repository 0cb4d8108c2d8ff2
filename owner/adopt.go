package owner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/client"
)

// Adopt makes owner the controller of an object without one, at the server. It does nothing if
// owner is that already, and fails with an *[OwnedError] if somebody else is.
//
// The owner is read from the server first: a controller that works from a stale cache could
// otherwise adopt for an owner that is being deleted or has been replaced.
func Adopt(ctx context.Context, c *client.Client, owner, child client.Object) error {
	if IsControlledBy(child, owner) {
		return nil
	}
	if child.GetDeletionTimestamp() != nil {
		return fmt.Errorf("adopt %T %s: it is being deleted", child, client.KeyOf(child))
	}
	adopted := child.DeepCopyObject().(client.Object)
	if err := SetController(owner, adopted, c.Scheme()); err != nil {
		return fmt.Errorf("adopt: %w", err)
	}
	if err := stillThere(ctx, c, owner); err != nil {
		return fmt.Errorf("adopt %T %s: %w", child, client.KeyOf(child), err)
	}
	return patch(ctx, c, child, adopted.GetOwnerReferences())
}

// Release removes the references to owner from an object, at the server: the object stays when
// owner is deleted. It does nothing if there are none, or if the object is gone.
func Release(ctx context.Context, c *client.Client, owner, child client.Object) error {
	released := child.DeepCopyObject().(client.Object)
	if !RemoveOwner(owner, released) {
		return nil
	}
	return client.IgnoreNotFound(patch(ctx, c, child, released.GetOwnerReferences()))
}

// Orphan releases all the children, so that owner can be deleted without them. It tries all of
// them and returns all errors.
func Orphan[T client.Object](ctx context.Context, c *client.Client, owner client.Object, children ...T) error {
	var errs []error
	for _, child := range children {
		errs = append(errs, Release(ctx, c, owner, child))
	}
	return errors.Join(errs...)
}

// stillThere checks with the server that the owner exists, is the same, and stays.
func stillThere(ctx context.Context, c *client.Client, owner client.Object) error {
	gvk, err := c.GroupVersionKind(owner)
	if err != nil {
		return err
	}
	now := &metav1.PartialObjectMetadata{}
	now.SetGroupVersionKind(gvk)
	switch err := c.Get(ctx, client.KeyOf(owner), now, client.Live); {
	case err != nil:
		return err
	case now.UID != owner.GetUID():
		return fmt.Errorf("%s %s was replaced: it has UID %s now, not %s", gvk.Kind, client.KeyOf(owner), now.UID, owner.GetUID())
	case now.DeletionTimestamp != nil:
		return fmt.Errorf("%s %s is being deleted", gvk.Kind, client.KeyOf(owner))
	}
	return nil
}

// patch replaces the owner references of the very child that was looked at, in the state it was
// in.
func patch(ctx context.Context, c *client.Client, child client.Object, refs []metav1.OwnerReference) error {
	if child.GetUID() == "" || child.GetResourceVersion() == "" {
		return fmt.Errorf("%T %s has no UID and resourceVersion: read it first", child, client.KeyOf(child))
	}
	metadata := map[string]any{
		"uid":             child.GetUID(),
		"resourceVersion": child.GetResourceVersion(),
		"ownerReferences": refs,
	}
	data, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("encode owner references: %w", err)
	}
	return c.Patch(ctx, child, client.RawPatch(types.MergePatchType, data))
}
