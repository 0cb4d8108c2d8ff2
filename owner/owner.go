// Package owner keeps the owner references by which the garbage collector and controllers know
// what belongs to what.
//
// An owner is meant by its UID. A name proves nothing: the owner may have been deleted and made
// anew, and the new one has none of the old one's children until it adopts them.
//
// A namespaced object can own only objects of its own namespace; the garbage collector would
// delete any other child for lack of an owner. The functions here refuse such references.
//
// [SetController] and [AddOwner] change an object in memory, for one that is about to be created
// or applied. [Adopt], [Release] and [Orphan] change an object at the server, by a patch that
// names the object's UID and resourceVersion and nothing but its owner references.
package owner

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/setpoint-dev/setpoint/client"
)

// OwnedError says that an object already has another controller.
type OwnedError struct {
	Object     client.Object         // the object
	Controller metav1.OwnerReference // whom it belongs to
}

// Error implements error.
func (e *OwnedError) Error() string {
	return fmt.Sprintf("%T %s is controlled by %s %s (UID %s): an object has one controller at most, so use another name or delete it",
		e.Object, client.KeyOf(e.Object), e.Controller.Kind, e.Controller.Name, e.Controller.UID)
}

// SetController makes owner the controller of child, in memory: the garbage collector deletes
// child once owner is gone, and a foreground deletion of owner waits for child. It fails with an
// *[OwnedError] if child has another controller. The owner must exist at the server already, since
// the reference needs its UID.
func SetController(owner, child client.Object, scheme *runtime.Scheme) error {
	ref, err := reference(owner, child, scheme)
	if err != nil {
		return err
	}
	yes := true
	ref.Controller, ref.BlockOwnerDeletion = &yes, &yes
	if controller := ControllerOf(child); controller != nil && controller.UID != ref.UID {
		return &OwnedError{Object: child, Controller: *controller}
	}
	put(child, ref)
	return nil
}

// AddOwner makes owner one of the owners of child, in memory: the garbage collector deletes child
// once all its owners are gone. A reference to owner that is there already, as a controller or
// not, is kept.
func AddOwner(owner, child client.Object, scheme *runtime.Scheme) error {
	ref, err := reference(owner, child, scheme)
	if err != nil {
		return err
	}
	if !IsOwnedBy(child, owner) {
		put(child, ref)
	}
	return nil
}

// RemoveOwner removes the references to owner from child, in memory, and reports whether there
// were any.
func RemoveOwner(owner, child metav1.Object) bool {
	refs := child.GetOwnerReferences()
	kept := slices.DeleteFunc(slices.Clone(refs), func(ref metav1.OwnerReference) bool { return ref.UID == owner.GetUID() })
	if len(kept) == len(refs) {
		return false
	}
	child.SetOwnerReferences(kept)
	return true
}

// ControllerOf returns a copy of the reference to obj's controller, or nil.
func ControllerOf(obj metav1.Object) *metav1.OwnerReference {
	for _, ref := range obj.GetOwnerReferences() {
		if ref.Controller != nil && *ref.Controller {
			return &ref
		}
	}
	return nil
}

// IsControlledBy reports whether owner, the one with that UID, is obj's controller.
func IsControlledBy(obj, owner metav1.Object) bool {
	controller := ControllerOf(obj)
	return controller != nil && owner.GetUID() != "" && controller.UID == owner.GetUID()
}

// IsOwnedBy reports whether owner, the one with that UID, is one of obj's owners.
func IsOwnedBy(obj, owner metav1.Object) bool {
	return owner.GetUID() != "" && slices.ContainsFunc(obj.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
		return ref.UID == owner.GetUID()
	})
}

// reference is a plain reference to owner, checked to be one that child may have.
func reference(owner, child client.Object, scheme *runtime.Scheme) (metav1.OwnerReference, error) {
	var none metav1.OwnerReference
	gvk, err := client.KindOf(owner, scheme)
	if err != nil {
		return none, fmt.Errorf("owner of %T %s: %w", child, client.KeyOf(child), err)
	}
	switch {
	case owner.GetUID() == "":
		return none, fmt.Errorf("%s %s cannot own anything yet: it has no UID, so it must be created or read first",
			gvk.Kind, client.KeyOf(owner))
	case owner.GetNamespace() != "" && child.GetNamespace() != owner.GetNamespace():
		return none, fmt.Errorf("%s %s cannot own %T %s, which is not in its namespace: "+
			"the garbage collector would delete it; use a finalizer, or a cluster-scoped owner",
			gvk.Kind, client.KeyOf(owner), child, client.KeyOf(child))
	}
	return metav1.OwnerReference{
		APIVersion: gvk.GroupVersion().String(),
		Kind:       gvk.Kind,
		Name:       owner.GetName(),
		UID:        owner.GetUID(),
	}, nil
}

// put adds a reference to child, or replaces the one to the same owner.
func put(child metav1.Object, ref metav1.OwnerReference) {
	refs := slices.Clone(child.GetOwnerReferences())
	at := slices.IndexFunc(refs, func(have metav1.OwnerReference) bool { return have.UID == ref.UID })
	if at < 0 {
		refs = append(refs, ref)
	} else {
		refs[at] = ref
	}
	child.SetOwnerReferences(refs)
}
