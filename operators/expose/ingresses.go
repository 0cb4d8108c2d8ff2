package expose

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
)

// reconcileIngress brings the Ingress of a name to what the Services that share it ask for.
func (r *reconciler) reconcileIngress(ctx context.Context, req setpoint.Request) (setpoint.Result, error) {
	members, err := r.members(ctx, req.Key())
	if err != nil {
		return setpoint.Result{}, err
	}
	existing, err := r.ingress(ctx, req.Key())
	if err != nil {
		return setpoint.Result{}, err
	}
	var mine *networkingv1.Ingress
	if own := r.own(ingressKind, req.Key()); existing != nil && isMine(existing, own) {
		mine = existing.DeepCopy()
		mine.ManagedFields = own
	}
	wanted, wrong := desiredIngress(req.Key(), members, mine)
	for _, m := range members {
		r.report(m.service, wrong[m.service.Name])
	}
	switch decide(existing != nil, mine != nil, existing != nil && existing.DeletionTimestamp != nil, wanted != nil) {
	case create:
		err = r.ensure(ctx, claimFor(req.Key(), wanted), wanted)
	case apply:
		if err = r.dropClass(ctx, mine, wanted); err == nil {
			wanted.ResourceVersion = mine.ResourceVersion
			err = r.client.Apply(ctx, wanted, client.ForceOwnership, client.IfUnchanged) // for it may be another's by now
		}
	case remove:
		err = client.IgnoreNotFound(r.client.Delete(ctx, existing, client.IfUnchanged))
	case refuse:
		r.reportAll(members, reasonNameTaken, fmt.Sprintf(
			"Ingress %q exists and was not made by %s: delete it, or set the annotation %s to a free name.", req.Name, FieldOwner, ingressNameOwn))
	}
	switch {
	case errors.Is(err, errTaken), apierrors.IsConflict(err):
		return setpoint.Result{Requeue: true}, nil
	case isRejected(err):
		r.reportAll(members, reasonRejected, fmt.Sprintf("The server does not accept Ingress %q: %v", req.Name, err))
	}
	return setpoint.Result{}, outcomeOf(err)
}

// dropClass takes from the operator's Ingress the class that the server gave it by default when it was made, if an annotation
// says another: an Ingress with both is served twice. An apply cannot, since nobody owns what the server gave.
func (r *reconciler) dropClass(ctx context.Context, mine, wanted *networkingv1.Ingress) error {
	if _, byAnnotation := wanted.Annotations[classAnnotation]; !byAnnotation || mine.Spec.IngressClassName == nil {
		return nil
	}
	before := mine.DeepCopy()
	mine.Spec.IngressClassName = nil
	return r.client.Patch(ctx, mine, client.MergeFrom(before), client.IfUnchanged)
}

// members returns the Services that share the Ingress of that name, and what they ask for. If the configuration makes no
// sense, they keep what they have.
func (r *reconciler) members(ctx context.Context, ingress types.NamespacedName) ([]member, error) {
	services, err := r.sharing(ctx, ingress)
	if err != nil {
		return nil, fmt.Errorf("looking for the Ingress's Services: %w", err)
	}
	c, valid, err := r.config(ctx, ingress.Namespace)
	if err != nil {
		return nil, err
	}
	f, err := r.facts(ctx, c, services...)
	if err != nil {
		return nil, err
	}
	members := membersOf(services, c, f)
	if !valid {
		members = holding(services)
	}
	return members, nil
}

// sharing lists the Services that ask to be exposed by the Ingress of that name.
func (r *reconciler) sharing(ctx context.Context, ingress types.NamespacedName, opts ...client.ListOption) ([]corev1.Service, error) {
	var services corev1.ServiceList
	opts = append(opts, client.InNamespace(ingress.Namespace), client.MatchingFields{ingressIndex: ingress.Name})
	err := r.client.List(ctx, &services, opts...)
	return slices.DeleteFunc(services.Items, func(s corev1.Service) bool { return s.DeletionTimestamp != nil }), err
}

// ingress returns the Ingress of a name, or nil.
func (r *reconciler) ingress(ctx context.Context, key types.NamespacedName) (*networkingv1.Ingress, error) {
	var ingress networkingv1.Ingress
	err := r.client.Get(ctx, key, &ingress)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &ingress, nil
}

// reportAll tells the authors of all Services that want something of an Ingress.
func (r *reconciler) reportAll(members []member, reason, note string) {
	for _, m := range members {
		if !m.plan.held {
			r.report(m.service, problems{{reason, note}})
		}
	}
}

// union returns a list with an item, once.
func union(list []string, item string) []string {
	set := map[string]bool{item: true}
	for _, s := range list {
		set[s] = true
	}
	return slices.Sorted(maps.Keys(set))
}
