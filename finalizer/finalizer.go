// Package finalizer keeps finalizers, by which a controller learns of a deletion before it happens
// and can clean up what the garbage collector does not know.
//
// A finalizer must be there before the first effect that needs cleaning up: [Ensure] first, then
// act. It cannot be added to an object that is being deleted, which the API forbids, so that
// Ensure leaves such an object alone.
//
// Finalizers are changed by patches under an optimistic lock, since the list is shared with
// others: neither a concurrent change nor any other field of the object is overwritten. The object
// is then set to the server's answer, so that it can be written again; local changes to it are
// lost, so they come after.
//
// Package steps runs cleanups in their declared order and removes each one's finalizer after it.
package finalizer

import (
	"context"
	"fmt"
	"slices"

	"github.com/setpoint-dev/setpoint/client"
)

// Has reports whether obj has the finalizer.
func Has(obj client.Object, name string) bool {
	return slices.Contains(obj.GetFinalizers(), name)
}

// Ensure adds the finalizers that obj lacks, at the server and in obj, and reports whether it
// added any. It does nothing to an object that is being deleted. Names have the form
// "example.com/what".
func Ensure(ctx context.Context, c *client.Client, obj client.Object, names ...string) (added bool, err error) {
	if obj.GetDeletionTimestamp() != nil {
		return false, nil
	}
	wanted := slices.Clone(obj.GetFinalizers())
	for _, name := range names {
		if !slices.Contains(wanted, name) {
			wanted = append(wanted, name)
		}
	}
	if len(wanted) == len(obj.GetFinalizers()) {
		return false, nil
	}
	if err := set(ctx, c, obj, wanted); err != nil {
		return false, fmt.Errorf("add finalizers %q: %w", names, err)
	}
	return true, nil
}

// Remove removes the finalizers from obj, at the server and in obj. When the last one of an object
// that is being deleted is removed, the object is gone. It does nothing when obj has none of them
// or is gone already.
func Remove(ctx context.Context, c *client.Client, obj client.Object, names ...string) error {
	kept := slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(have string) bool { return slices.Contains(names, have) })
	if len(kept) == len(obj.GetFinalizers()) {
		return nil
	}
	if err := client.IgnoreNotFound(set(ctx, c, obj, kept)); err != nil {
		return fmt.Errorf("remove finalizers %q: %w", names, err)
	}
	return nil
}

// set patches the list, and leaves obj as it was if that fails.
func set(ctx context.Context, c *client.Client, obj client.Object, names []string) error {
	base := obj.DeepCopyObject().(client.Object)
	obj.SetFinalizers(names)
	err := c.Patch(ctx, obj, client.MergeFromWithOptimisticLock(base))
	if err != nil {
		obj.SetFinalizers(base.GetFinalizers())
	}
	return err
}
