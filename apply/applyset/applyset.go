package applyset

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/owner"
)

const (
	// Label is the label of the members. Its value is the parent's UID.
	Label = "applyset.setpoint.dev/parent"
	// Annotation is the annotation of the parent that says where its members are.
	Annotation = "applyset.setpoint.dev/places"
)

// Apply applies the members by server-side apply, taking over fields that others own, and then
// deletes former members. parent must exist at the server; it is set to the server's answer when
// its annotation changes. Each member is given the label and, if the parent can own it, the owner
// reference, and is then set to the server's answer. With no members all former ones are deleted.
func Apply(ctx context.Context, c *client.Client, parent client.Object, members ...client.Object) error {
	s := &set{client: c, parent: parent, members: map[member]bool{}}
	if err := s.enter(members); err != nil {
		return fmt.Errorf("apply set of %T %s: %w", parent, client.KeyOf(parent), err)
	}
	before := placesOf(parent)
	now := s.places()
	if err := s.record(ctx, before.with(now)); err != nil {
		return fmt.Errorf("apply set: %w", err)
	}
	var errs []error
	for _, obj := range members {
		errs = append(errs, c.Apply(ctx, obj, client.ForceOwnership))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("apply set: nothing is deleted while members cannot be applied: %w", err)
	}
	if err := s.prune(ctx, before.with(now)); err != nil {
		return fmt.Errorf("apply set: %w", err)
	}
	if err := s.record(ctx, now); err != nil {
		return fmt.Errorf("apply set: %w", err)
	}
	return nil
}

// member is what identifies a member.
type member struct {
	kind            schema.GroupKind
	namespace, name string
}

// set is one run.
type set struct {
	client  *client.Client
	parent  client.Object
	members map[member]bool
}

// enter marks the members as such.
func (s *set) enter(members []client.Object) error {
	if s.parent.GetUID() == "" {
		return errors.New("the parent has no UID: it must be created or read first")
	}
	var errs []error
	for _, obj := range members {
		if err := s.mark(obj); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (s *set) mark(obj client.Object) error {
	gvk, err := s.client.GroupVersionKind(obj)
	if err != nil {
		return err
	}
	namespaced, err := s.client.IsNamespaced(obj)
	if err != nil {
		return err
	}
	if !namespaced {
		obj.SetNamespace("")
	}
	id := member{gvk.GroupKind(), obj.GetNamespace(), obj.GetName()}
	if s.members[id] {
		return fmt.Errorf("%v %s is in the set twice", id.kind, client.KeyOf(obj))
	}
	s.members[id] = true
	labels := map[string]string{Label: string(s.parent.GetUID())}
	for name, value := range obj.GetLabels() {
		if name != Label {
			labels[name] = value
		}
	}
	obj.SetLabels(labels)
	if s.parent.GetNamespace() != "" && s.parent.GetNamespace() != obj.GetNamespace() {
		return nil // the API does not allow it to own the member
	}
	return owner.SetController(s.parent, obj, s.client.Scheme())
}

// record makes the parent's annotation name the places.
func (s *set) record(ctx context.Context, p places) error {
	if p.String() == s.parent.GetAnnotations()[Annotation] {
		return nil
	}
	before := s.parent.DeepCopyObject().(client.Object)
	annotations := map[string]string{Annotation: p.String()}
	for name, value := range s.parent.GetAnnotations() {
		if name != Annotation {
			annotations[name] = value
		}
	}
	if len(p) == 0 {
		delete(annotations, Annotation)
	}
	s.parent.SetAnnotations(annotations)
	// From a stale annotation a kind could be lost.
	return s.client.Patch(ctx, s.parent, client.MergeFromWithOptimisticLock(before))
}

// places are those of the members.
func (s *set) places() places {
	var p places
	for m := range s.members {
		p = append(p, place{kind: m.kind, namespace: m.namespace})
	}
	return p.sorted()
}
