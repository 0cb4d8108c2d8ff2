package memcached

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/apply"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/condition"
	"github.com/setpoint-dev/setpoint/event"
	"github.com/setpoint-dev/setpoint/finalizer"
	v1 "github.com/setpoint-dev/setpoint/operators/memcached/v1"
)

// ofNoObject is a resourceVersion that no object ever has, since a store begins with it. An apply that insists on it
// creates an object or fails, like a create. But a create leaves the fields with a manager of its own, so that no later
// apply could remove one, such as the old port.
const ofNoObject = "1"

// reconciler carries out what the pure functions decide.
type reconciler struct {
	client *client.Client
	events *event.Recorder
}

// reconcile brings the objects of one Memcached, and then its status, to what they should be.
func (r *reconciler) reconcile(ctx context.Context, mc *v1.Memcached) (setpoint.Result, error) {
	if mc.DeletionTimestamp != nil {
		return r.stop(ctx, mc)
	}
	if _, err := finalizer.Ensure(ctx, r.client, mc, finalizerName); err != nil {
		return setpoint.Result{}, client.IgnoreNotFound(err)
	}
	set := statefulSet(mc)
	var o outcome
	for _, want := range []struct {
		obj  client.Object
		into *child
	}{{service(mc), &o.service}, {disruptionBudget(mc), &o.budget}, {set, &o.set}} {
		became, err := r.ensure(ctx, mc, want.obj)
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return setpoint.Result{}, nil // the namespace takes the Memcached along
		}
		if err != nil {
			return setpoint.Result{}, err
		}
		*want.into = became
	}
	if set.UID != "" {
		o.nodes = set
	}
	again, err := r.report(ctx, mc, o)
	if err != nil {
		return setpoint.Result{}, err
	}
	return setpoint.Result{RequeueAfter: again}, refusals(o)
}

// refusals returns the server's refusals: terminal, unless one may pass without a change of the Memcached.
func refusals(o outcome) error {
	passing := false
	var errs []error
	for _, c := range o.children() {
		errs = append(errs, c.err)
		passing = passing || c.err != nil && !apierrors.IsInvalid(c.err)
	}
	err := errors.Join(errs...)
	if passing {
		return err
	}
	return setpoint.Terminal(err)
}

// ensure makes one object of mc what it should be, as far as it is mc's to make, and sets want to what it is then.
func (r *reconciler) ensure(ctx context.Context, mc *v1.Memcached, want client.Object) (child, error) {
	kind := want.GetObjectKind().GroupVersionKind().Kind
	have := want.DeepCopyObject().(client.Object)
	err := r.client.Get(ctx, client.KeyOf(want), have)
	if apierrors.IsNotFound(err) {
		want.SetResourceVersion(ofNoObject)
		err = r.client.Apply(ctx, want, client.ForceOwnership, client.IfUnchanged)
		if err == nil {
			r.events.Eventf(mc, event.Normal, kind+"Created", "Create", "Created %s %q", kind, want.GetName())
			return child{kind: kind, there: true}, nil
		}
		want.SetResourceVersion("")
		if apierrors.IsConflict(err) { // there is one that the cache does not have yet
			err = r.client.Get(ctx, client.KeyOf(want), have, client.Live)
		}
	}
	there := err == nil
	if there {
		switch s := standingOf(have, mc); s {
		case strange:
			return child{kind: kind, standing: s, problem: problemOf(kind, have)}, nil
		case ending:
			return child{kind: kind, standing: s}, r.client.Get(ctx, client.KeyOf(want), want)
		}
		want.SetUID(have.GetUID())
		err = r.client.Apply(ctx, want, client.ForceOwnership)
		if apierrors.IsInvalid(err) {
			err = r.overwrite(ctx, want)
		}
	}
	if (apierrors.IsInvalid(err) || apierrors.IsForbidden(err)) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		problem := fmt.Sprintf("The server does not accept %s %q; change the Memcached, or what forbids it: %v", kind, want.GetName(), err)
		return child{kind: kind, standing: rejected, there: there, problem: problem, err: err}, nil
	}
	return child{kind: kind, there: there}, err
}

// overwrite replaces the lists in an object's spec as a whole. An apply that brings back an item which somebody changed in
// what identifies it, such as the number of a port, leaves the changed one beside it, and two ports of one name are invalid.
// So it takes out of a budget what excludes its own limit.
func (r *reconciler) overwrite(ctx context.Context, want client.Object) error {
	fields, err := apply.From(want, want.GetObjectKind().GroupVersionKind())
	if err != nil {
		return err
	}
	if _, budget := want.(*policyv1.PodDisruptionBudget); budget {
		fields.Object["spec"].(map[string]any)["minAvailable"] = nil
	}
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": want.GetUID()}, "spec": fields.Object["spec"]})
	if err != nil {
		return err
	}
	return r.client.Patch(ctx, want, client.RawPatch(types.MergePatchType, text))
}

// report writes the status if it differs from the one there, and an Event when the Memcached needs somebody's attention
// for a new reason. It returns when to look again.
func (r *reconciler) report(ctx context.Context, mc *v1.Memcached, o outcome) (again time.Duration, err error) {
	var pods corev1.PodList
	if err := r.client.List(ctx, &pods, client.InNamespace(mc.Namespace), client.MatchingLabels(nodeLabels(mc))); err != nil {
		return 0, fmt.Errorf("looking for the nodes: %w", err)
	}
	status, again := statusOf(mc, o, pods.Items, time.Now())
	if equality.Semantic.DeepEqual(mc.Status, status) {
		return again, nil
	}
	before := mc.DeepCopy()
	mc.Status = status
	if err := r.client.Status().Patch(ctx, mc, client.MergeFrom(before)); err != nil {
		return 0, client.IgnoreNotFound(err) // a Memcached that is gone has no status
	}
	was, _ := condition.Get(before.Status.Conditions, v1.ConditionDegraded)
	now, _ := condition.Get(status.Conditions, v1.ConditionDegraded)
	if condition.IsTrue(status.Conditions, v1.ConditionDegraded) && (was.Reason != now.Reason || was.Message != now.Message) {
		r.events.Eventf(mc, event.Warning, now.Reason, "Reconcile", "%s", now.Message)
	}
	return again, nil
}
