package expose

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/cache"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/event"
)

// reconciler carries out what the pure functions decide. The three controllers share it.
type reconciler struct {
	client  *client.Client
	cache   *cache.Cache
	events  *event.Recorder
	options Options
	configs *configs
	routes  *routes
	found   *prometheus.CounterVec
}

// action is what a reconcile does about the Ingress or HTTPRoute of a name.
type action int

const (
	// leave does nothing: nothing is wanted, or what is there is a stranger's and not in the way.
	leave action = iota
	// create makes it: there is none.
	create
	// apply brings the operator's own to what is wanted.
	apply
	// remove deletes the operator's own.
	remove
	// wait does nothing until the operator's own, which is being deleted, is gone.
	wait
	// refuse does nothing until a stranger's is gone.
	refuse
)

// decide says what to do about the object of a name, given whether there is one, whether it is the operator's, whether it is
// being deleted, and whether one is wanted.
func decide(exists, mine, deleting, wanted bool) action {
	switch {
	case !exists && wanted:
		return create
	case !exists, !mine && !wanted:
		return leave
	case !mine:
		return refuse
	case deleting:
		return wait
	case wanted:
		return apply
	default:
		return remove
	}
}

// isMine reports whether the operator made an object: it carries the mark for its own name, and fields that the operator
// wrote. The mark alone may have been copied, and the fields alone do not say for what they were written.
func isMine(obj metav1.Object, own []metav1.ManagedFieldsEntry) bool {
	key := types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	return obj.GetAnnotations()[mark] == key.String() && len(own) > 0
}

// own returns the entries of an object's managedFields that are the operator's.
func (r *reconciler) own(kind schema.GroupVersionKind, key types.NamespacedName) []metav1.ManagedFieldsEntry {
	entry, found := r.cache.Peek(kind, key)
	if !found {
		return nil
	}
	return entry.ManagedFields()
}

// config returns the configuration of a namespace. It reports false when that makes no sense: then all that is there stays
// as it is, and the ConfigMap's own reconcile tells its author.
func (r *reconciler) config(ctx context.Context, namespace string, opts ...client.GetOption) (Config, bool, error) {
	for _, ns := range []string{namespace, r.options.Namespace} {
		var cm corev1.ConfigMap
		err := r.client.Get(ctx, types.NamespacedName{Namespace: ns, Name: configName}, &cm, opts...)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return Config{}, false, fmt.Errorf("reading the configuration: %w", err)
		}
		text, found := cm.Data[configKey]
		if !found {
			continue
		}
		c, valid := r.configs.parse(ns, text)
		return c.with(r.options.Config), valid, nil
	}
	return r.options.Config, true, nil
}

// facts returns what else a plan for one of the Services depends on.
func (r *reconciler) facts(ctx context.Context, c Config, services ...corev1.Service) (facts, error) {
	f := facts{routes: r.routes.served(), missing: r.routes.missing()}
	if !slices.ContainsFunc(services, func(s corev1.Service) bool { return needsNodes(&s, c) }) {
		return f, nil
	}
	var nodes corev1.NodeList
	if err := r.client.List(ctx, &nodes); err != nil {
		return f, fmt.Errorf("looking for an address of the cluster: %w", err)
	}
	f.nodes = nodes.Items
	return f, nil
}

// report tells the author of an object what is wrong with it.
func (r *reconciler) report(obj client.Object, found []problem) {
	for _, p := range found {
		r.found.WithLabelValues(p.reason).Inc()
		r.events.Eventf(obj, event.Warning, p.reason, "Expose", "%s", p.note)
	}
}

// outcomeOf turns the error of a write into what becomes of the reconcile: what goes with its namespace is done, what the
// server does not accept waits for a change, and all else is tried again.
func outcomeOf(err error) error {
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil
	case apierrors.IsInvalid(err):
		return setpoint.Terminal(err)
	}
	return err
}

// isRejected reports whether the server turned a write down for what it says.
func isRejected(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// errTaken says that somebody else has just made an object of the name.
var errTaken = errors.New("somebody else has just made an object of that name")

// ensure makes an object that does not exist: claim is created, which fails if there is one, and then wanted is applied to
// it. Applying at once could take over what a stranger has made meanwhile; creating the whole would make the operator own its
// fields twice, as created and as applied, and none of them could be dropped by an apply any more.
func (r *reconciler) ensure(ctx context.Context, claim, wanted client.Object) error {
	if err := r.client.Create(ctx, claim); err != nil {
		if apierrors.IsAlreadyExists(err) {
			return errTaken
		}
		return err
	}
	wanted.SetUID(claim.GetUID())
	return r.client.Apply(ctx, wanted, client.ForceOwnership)
}
