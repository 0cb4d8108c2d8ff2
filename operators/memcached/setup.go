package memcached

import (
	"context"
	_ "embed"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/cache"
	"github.com/setpoint-dev/setpoint/client"
	v1 "github.com/setpoint-dev/setpoint/operators/memcached/v1"
	"github.com/setpoint-dev/setpoint/operators/memcached/v1alpha1"
	"github.com/setpoint-dev/setpoint/owner"
)

// Name is the operator's name: of its controller, its lease and its field manager.
const Name = "memcached"

// workers is how many Memcacheds are reconciled at once.
const workers = 4

//go:embed manifests/cache.setpoint.dev_memcacheds.yaml
var crd string

//go:embed manifests/rbac.yaml
var rbac string

// CRD returns the CustomResourceDefinition of Memcached as YAML. Of its versions only v1 is served: v1alpha1 needs the
// webhooks; see WebhookManifests.
func CRD() string { return crd }

// RBAC returns, as YAML, the ServiceAccount setpoint-memcached in the namespace setpoint-system and the least that it
// needs to be allowed: what the operator does in every namespace, and its lease in its own.
func RBAC() string { return rbac }

// AddToScheme teaches a manager's scheme the kinds that the operator needs beside the built-in ones.
func AddToScheme(s *runtime.Scheme) error {
	if err := v1.AddToScheme(s); err != nil {
		return err
	}
	return v1alpha1.AddToScheme(s)
}

// Kinds says what of the kinds that the operator watches a manager needs to cache: of Pods only the nodes. A manager
// without it keeps all Pods of the cluster in memory.
func Kinds() map[schema.GroupKind]cache.Options {
	isNode, err := labels.NewRequirement(nodeLabel, selection.Exists, nil)
	if err != nil {
		panic(err) // nodeLabel is no label
	}
	return map[schema.GroupKind]cache.Options{{Kind: "Pod"}: {Labels: labels.NewSelector().Add(*isNode)}}
}

// Setup adds the operator to a manager whose scheme knows AddToScheme's kinds.
func Setup(m *setpoint.Manager) error {
	r := &reconciler{client: m.Client(), events: m.Events(Name)}
	setpoint.For[*v1.Memcached](m, Name).
		Owns(&appsv1.StatefulSet{}).
		Owns(&corev1.Service{}).
		Owns(&policyv1.PodDisruptionBudget{}).
		Watches(&appsv1.StatefulSet{}, r.wanting).
		Watches(&corev1.Service{}, r.wanting).
		Watches(&policyv1.PodDisruptionBudget{}, r.wanting).
		Watches(&corev1.Pod{}, ofNode).
		Workers(workers).
		Reconcile(r.reconcile)
	return nil
}

// ofNode names the Memcached of a Pod that carries the label of a node.
func ofNode(_ context.Context, pod client.Object) []setpoint.Request {
	name := pod.GetLabels()[nodeLabel]
	if name == "" {
		return nil
	}
	return []setpoint.Request{{Namespace: pod.GetNamespace(), Name: name}}
}

// wanting names the Memcached that wants an object's name without controlling it: it waits for it to go.
func (r *reconciler) wanting(ctx context.Context, obj client.Object) []setpoint.Request {
	var mc v1.Memcached
	// A Memcached that the cache does not have yet is reconciled when it arrives.
	err := r.client.Get(ctx, types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}, &mc, client.AllowStale)
	if client.IgnoreNotFound(err) != nil {
		setpoint.Logger(ctx).Error("Finding the Memcached that waits for a name", "name", client.KeyOf(obj), "error", err)
	}
	if err != nil || owner.IsControlledBy(obj, &mc) {
		return nil
	}
	return []setpoint.Request{setpoint.RequestFor(metav1.Object(&mc))}
}
