package foo

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/condition"
	"github.com/setpoint-dev/setpoint/event"
	"github.com/setpoint-dev/setpoint/operators/foo/v1alpha1"
)

// reconciler carries out what the pure functions decide.
type reconciler struct {
	client *client.Client
	events *event.Recorder
}

// reconcile brings one Foo's Deployment, and then its status, to what they should be.
func (r *reconciler) reconcile(ctx context.Context, foo *v1alpha1.Foo) (setpoint.Result, error) {
	if foo.DeletionTimestamp != nil {
		return setpoint.Result{}, nil // what it owns is the garbage collector's now
	}
	var controlled appsv1.DeploymentList
	if err := r.client.List(ctx, &controlled, client.InNamespace(foo.Namespace), client.MatchingFields{controllerIndex: string(foo.UID)}); err != nil {
		return setpoint.Result{}, fmt.Errorf("looking for the Foo's Deployments: %w", err)
	}
	others := othersOf(foo, controlled.Items)

	act, named, err := r.ensure(ctx, foo)
	if act == leave && err == nil || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return setpoint.Result{}, nil // the Foo is gone, or goes with its namespace
	}
	rejected := apierrors.IsInvalid(err) || apierrors.IsForbidden(err)
	if err != nil && !rejected {
		return setpoint.Result{}, err
	}
	o := outcome{action: act, named: named, others: others}
	if rejected {
		o.rejected = err
	} else if act == create || act == apply {
		if err := r.remove(ctx, foo, others); err != nil {
			return setpoint.Result{}, err
		}
		o.others = nil
	}
	if err := r.report(ctx, foo, statusOf(foo, o)); err != nil {
		return setpoint.Result{}, err
	}
	if apierrors.IsInvalid(o.rejected) {
		return setpoint.Result{}, setpoint.Terminal(o.rejected)
	}
	return setpoint.Result{}, o.rejected
}

// ensure makes the wanted Deployment what it should be, as far as it is the Foo's to make. It returns what it did and
// the Deployment of the wanted name as it is then.
func (r *reconciler) ensure(ctx context.Context, foo *v1alpha1.Foo) (action, *appsv1.Deployment, error) {
	named, err := r.get(ctx, foo)
	if err != nil {
		return leave, nil, err
	}
	act := decide(foo, named)
	if act == create {
		if gone, err := r.gone(ctx, foo); gone || err != nil {
			return leave, nil, err
		}
		made := desired(foo, "")
		err := r.client.Create(ctx, made)
		if err == nil {
			r.events.Eventf(foo, corev1.EventTypeNormal, "DeploymentCreated", "Create", "Created Deployment %q", made.Name)
			return create, made, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return create, nil, err
		}
		// The cache does not have it yet.
		if named, err = r.get(ctx, foo, client.Live); err != nil {
			return create, nil, err
		}
		if act = decide(foo, named); act == create {
			return create, nil, fmt.Errorf("the Deployment %q came and went at once", made.Name)
		}
	}
	if act == apply {
		applied := desired(foo, named.UID)
		if err := r.client.Apply(ctx, applied, client.ForceOwnership); err != nil {
			return apply, named, err
		}
		named = applied
	}
	return act, named, nil
}

// get returns the Deployment of the name that foo wants, or nil.
func (r *reconciler) get(ctx context.Context, foo *v1alpha1.Foo, opts ...client.GetOption) (*appsv1.Deployment, error) {
	var d appsv1.Deployment
	err := r.client.Get(ctx, types.NamespacedName{Namespace: foo.Namespace, Name: deploymentName(foo)}, &d, opts...)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &d, nil
}

// gone reports whether foo was deleted. A Foo that had a Deployment before and has none now may be gone with it: the
// cache hears of the two independently.
func (r *reconciler) gone(ctx context.Context, foo *v1alpha1.Foo) (bool, error) {
	if foo.Status.ObservedGeneration == 0 {
		return false, nil
	}
	var live v1alpha1.Foo
	err := r.client.Get(ctx, client.KeyOf(foo), &live, client.Live)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return err == nil && (live.UID != foo.UID || live.DeletionTimestamp != nil), err
}

// remove deletes Deployments that foo controls and no longer wants.
func (r *reconciler) remove(ctx context.Context, foo *v1alpha1.Foo, unwanted []appsv1.Deployment) error {
	for i := range unwanted {
		d := &unwanted[i]
		if d.DeletionTimestamp != nil {
			continue
		}
		if err := r.client.Delete(ctx, d); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		r.events.Eventf(foo, corev1.EventTypeNormal, "DeploymentDeleted", "Delete",
			"Deleted Deployment %q, since the Foo now runs %q", d.Name, deploymentName(foo))
	}
	return nil
}

// report writes the status if it differs from the one there, and an Event when the Foo needs somebody's attention for a
// new reason.
func (r *reconciler) report(ctx context.Context, foo *v1alpha1.Foo, status v1alpha1.FooStatus) error {
	if equality.Semantic.DeepEqual(foo.Status, status) {
		return nil
	}
	before := foo.DeepCopy()
	foo.Status = status
	if err := r.client.Status().Patch(ctx, foo, client.MergeFrom(before)); err != nil {
		return client.IgnoreNotFound(err) // a Foo that is gone has no status
	}
	was, _ := condition.Get(before.Status.Conditions, v1alpha1.ConditionReady)
	now, _ := condition.Get(status.Conditions, v1alpha1.ConditionReady)
	if attention(now.Reason) && (was.Reason != now.Reason || was.Message != now.Message) {
		r.events.Eventf(foo, corev1.EventTypeWarning, now.Reason, "Reconcile", "%s", now.Message)
	}
	return nil
}

// attention tells the reasons for which a Foo does not get ready without help.
func attention(reason string) bool {
	switch reason {
	case v1alpha1.ReasonNameTaken, v1alpha1.ReasonRejected, v1alpha1.ReasonDeadlineExceeded, v1alpha1.ReasonReplicaFailure:
		return true
	}
	return false
}
