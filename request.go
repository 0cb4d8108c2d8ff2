package setpoint

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Request names the object that a reconcile is about. It says nothing of what
// happened to the object: a reconciler reads the present state.
type Request struct {
	// Cluster is the name of the cluster that holds the object; empty is the
	// cluster of the manager's Config.
	Cluster string
	// Namespace is empty for objects of cluster-scoped kinds.
	Namespace string
	Name      string
}

// RequestFor returns the request that names obj in the manager's own cluster.
func RequestFor(obj metav1.Object) Request {
	return Request{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// Key returns namespace and name, as the client's Get takes them.
func (r Request) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
}

// String returns "namespace/name", "name" for cluster-scoped objects, and
// either prefixed by "cluster:" when Cluster is set.
func (r Request) String() string {
	s := r.Name
	if r.Namespace != "" {
		s = r.Namespace + "/" + s
	}
	if r.Cluster != "" {
		s = r.Cluster + ":" + s
	}
	return s
}

// Reconciler brings the object that a request names closer to its desired
// state. It is the key form of a reconciler, for those who want to do the
// reading themselves; it is called for objects that no longer exist, too.
type Reconciler interface {
	Reconcile(ctx context.Context, req Request) (Result, error)
}

// ReconcilerFunc is a function that is a Reconciler.
type ReconcilerFunc func(ctx context.Context, req Request) (Result, error)

// Reconcile calls f.
func (f ReconcilerFunc) Reconcile(ctx context.Context, req Request) (Result, error) {
	return f(ctx, req)
}
