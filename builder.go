package setpoint

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/filter"
	"github.com/setpoint-dev/setpoint/queue"
)

// Builder declares a controller. Its methods may be called in any order, the
// last being Reconcile or ReconcileRequest, which registers the controller.
// Mistakes are kept and returned by Manager.Run, all at once.
type Builder[T client.Object] struct {
	c *Controller
}

// For begins a controller that reconciles objects of T's kind. The name is the
// controller's in logs, metrics and health; it must be unique in the manager.
//
// T is a pointer to the Go type of the kind: registered in the scheme, or
// *unstructured.Unstructured or *metav1.PartialObjectMetadata together with
// Kind.
func For[T client.Object](m *Manager, name string) *Builder[T] {
	return &Builder[T]{c: newController[T](m, name)}
}

// Kind names the kind of a controller whose T does not say it.
func (b *Builder[T]) Kind(gvk schema.GroupVersionKind) *Builder[T] {
	b.c.kind = gvk
	return b
}

// When adds a filter on changes of the primary objects: a change that it turns
// down does not cause a reconcile. It does not concern what Owns and Watches
// bring. Deletions, changes of the pause annotation, and planned and repeated
// reconciles always pass. Several filters must all let a change pass. Without
// When every change passes.
func (b *Builder[T]) When(f filter.Filter) *Builder[T] {
	b.c.filters = append(b.c.filters, f)
	return b
}

// Owns makes changes of obj's kind cause a reconcile of the object that
// controls the changed one, found by its controller owner reference: group,
// kind and UID must match. The object's fields do not matter, only its kind.
// All filters must let a change pass; deletions always do.
func (b *Builder[T]) Owns(obj client.Object, filters ...filter.Filter) *Builder[T] {
	b.c.owns(obj, filters)
	return b
}

// Watches makes changes of obj's kind cause the reconciles that requests names.
// It is called with the changed object and, when a change has an older state,
// with that one too, so that both what was referred to and what is are woken.
// It must not change the object. All filters must let a change pass; deletions
// always do. A request that names no cluster is of the one that the change comes
// from.
func (b *Builder[T]) Watches(obj client.Object, requests func(context.Context, client.Object) []Request, filters ...filter.Filter) *Builder[T] {
	b.c.watches(nil, obj, requests, filters)
	return b
}

// WatchesIn is Watches in other clusters than those that the controller is In.
// A request that names no cluster is of the manager's own; ClusterOf tells the
// function which one the change comes from. It is called again for all objects when
// a cluster is added, for the requests that concern it.
func (b *Builder[T]) WatchesIn(where Clusters, obj client.Object, requests func(context.Context, client.Object) []Request, filters ...filter.Filter) *Builder[T] {
	if where == nil {
		b.c.mistake("WatchesIn(%T): where is nil", obj)
		return b
	}
	b.c.watches(where, obj, requests, filters)
	return b
}

// In says in which clusters the controller works: there its primary objects are
// reconciled, and what it Owns, Watches and Reads is watched, each cluster's by
// itself. Default: HomeCluster.
func (b *Builder[T]) In(where Clusters) *Builder[T] {
	if where == nil {
		b.c.mistake("In(nil): name the clusters, as AllClusters does")
		return b
	}
	b.c.in = where
	return b
}

// Reads declares that the reconciler reads objects of obj's kind from the
// cache. Their changes cause nothing. The controller does not start before the
// first listing is there.
func (b *Builder[T]) Reads(obj client.Object) *Builder[T] {
	b.c.reads(obj)
	return b
}

// Source adds requests that come from elsewhere than the API server. The name
// is their source in Causes.
func (b *Builder[T]) Source(name string, s Source) *Builder[T] {
	b.c.external = append(b.c.external, external{name, s})
	return b
}

// Workers sets how many reconciles of this controller may run at once in each
// cluster, each of another object. Default: 1.
func (b *Builder[T]) Workers(n int) *Builder[T] {
	b.c.workers = n
	return b
}

// Timeout gives the context of each reconcile a deadline. Default: none.
func (b *Builder[T]) Timeout(d time.Duration) *Builder[T] {
	b.c.timeout = d
	return b
}

// Backoff spaces the retries of one object: the first after base, doubled for
// each further one, up to max. Default: 5 ms and 1000 s.
func (b *Builder[T]) Backoff(base, max time.Duration) *Builder[T] {
	b.c.backoff = queue.Backoff{Base: base, Max: max}
	return b
}

// Optional declares that the primary kind may not be served, such as one of a
// CustomResourceDefinition that not every cluster has. As long as it is not, the
// controller is idle, which is said in /readyz but is no reason not to be ready;
// when it comes, the controller starts. Default: a kind that is missing is
// reported, and keeps the manager from being ready.
func (b *Builder[T]) Optional() *Builder[T] {
	b.c.optional = true
	return b
}

// RateLimit bounds the reconciles of this controller in each cluster, whatever
// they are for: so many per second in the long run, and burst at once. It protects
// what the reconciler calls, such as an external API, from start-up listings and
// floods of changes; what has to wait is reconciled in the same order as without.
// Default: no bound.
func (b *Builder[T]) RateLimit(perSecond float64, burst int) *Builder[T] {
	if perSecond <= 0 || burst < 1 {
		b.c.mistake("RateLimit(%v, %d): both must be positive", perSecond, burst)
		return b
	}
	b.c.rate = queue.Bucket{Rate: perSecond, Burst: burst}
	return b
}

// RetryLimit bounds the retries of all objects of a cluster by this controller
// together: so many per second in the long run, and burst at once. Default: no
// bound.
func (b *Builder[T]) RetryLimit(perSecond float64, burst int) *Builder[T] {
	b.c.retries = queue.Bucket{Rate: perSecond, Burst: burst}
	return b
}

// Reconcile registers the controller with the object form of a reconciler. The
// function gets its own copy of the object, read when the reconcile starts; it
// is called while the object is being deleted, too, but not once it is gone.
func (b *Builder[T]) Reconcile(fn func(context.Context, T) (Result, error)) *Controller {
	if fn != nil {
		b.c.onObject = func(ctx context.Context, obj client.Object) (Result, error) { return fn(ctx, obj.(T)) }
	}
	return b.c.register()
}

// ReconcileRequest registers the controller with the key form of a reconciler.
func (b *Builder[T]) ReconcileRequest(r Reconciler) *Controller {
	b.c.onRequest = r
	return b.c.register()
}
