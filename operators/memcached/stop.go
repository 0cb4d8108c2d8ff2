package memcached

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/finalizer"
	v1 "github.com/setpoint-dev/setpoint/operators/memcached/v1"
)

// finalizerName keeps a Memcached until its last node has ended. Garbage collection would stop the nodes in any order with
// their Service, and only after the Memcached is gone, when its names may be in use again.
const finalizerName = "cache.setpoint.dev/nodes"

// stop takes the nodes of a Memcached that is being deleted out of the DNS, ends them, and lets it go after the last. The
// rest is the garbage collector's. An orphaning deletion is let go at once: what it leaves is to stay as it is.
func (r *reconciler) stop(ctx context.Context, mc *v1.Memcached) (setpoint.Result, error) {
	if !finalizer.Has(mc, finalizerName) {
		return setpoint.Result{}, nil
	}
	set := &appsv1.StatefulSet{}
	if !finalizer.Has(mc, metav1.FinalizerOrphanDependents) {
		if _, err := r.end(ctx, mc, &corev1.Service{}); err != nil {
			return setpoint.Result{}, err
		}
		if gone, err := r.end(ctx, mc, set); err != nil {
			return setpoint.Result{}, err
		} else if !gone {
			_, err := r.report(ctx, mc, outcome{deleting: true, nodes: set})
			return setpoint.Result{}, err
		}
	}
	return setpoint.Result{}, finalizer.Remove(ctx, r.client, mc, finalizerName)
}

// end deletes mc's object of obj's kind, and reports whether none is left. Since that cannot be taken back, it asks the
// server. The deletion is a foreground one: a StatefulSet is there until its last Pod is gone.
func (r *reconciler) end(ctx context.Context, mc *v1.Memcached, obj client.Object) (gone bool, err error) {
	if err := r.client.Get(ctx, client.KeyOf(mc), obj, client.Live); err != nil {
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	switch standingOf(obj, mc) {
	case strange:
		return true, nil
	case ending:
		return false, nil
	}
	err = r.client.Delete(ctx, obj, client.PropagationPolicy(metav1.DeletePropagationForeground))
	return false, client.IgnoreNotFound(err)
}
