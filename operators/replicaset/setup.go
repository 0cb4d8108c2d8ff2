package replicaset

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/filter"
	"github.com/setpoint-dev/setpoint/owner"
)

// Name is the operator's name: of its controller, its lease and its field manager.
const Name = "replicaset"

const (
	// controllerIndex finds Pods and ReplicaSets by the UID of what controls them.
	controllerIndex = "controller"
	// nobody is the value of controllerIndex for what nothing controls.
	nobody = "-"
	// workers is how many ReplicaSets are reconciled at once.
	workers = 5
)

//go:embed manifests/rbac.yaml
var rbac string

// RBAC returns, as YAML, the ServiceAccount setpoint-replicaset in the namespace setpoint-system and the least that it
// needs to be allowed: what the operator does in every namespace, and its lease in its own.
func RBAC() string { return rbac }

// AddToScheme teaches a manager's scheme the kinds that the operator needs beside the built-in ones: there are none.
func AddToScheme(*runtime.Scheme) error { return nil }

// Setup adds the operator to a manager whose scheme knows the built-in kinds.
func Setup(m *setpoint.Manager) error {
	err := errors.Join(
		m.Cache().Index(corev1.SchemeGroupVersion.WithKind("Pod"), controllerIndex, controllerUID),
		m.Cache().Index(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), controllerIndex, controllerUID),
	)
	if err != nil {
		return fmt.Errorf("setting up the operator %s: %w", Name, err)
	}
	r := &reconciler{client: m.Client(), events: m.Events(Name)}
	setpoint.For[*appsv1.ReplicaSet](m, Name).
		When(filter.GenerationChanged). // so that a status that was written causes nothing
		Owns(&corev1.Pod{}).
		Watches(&corev1.Pod{}, r.adopting).
		Workers(workers).
		Reconcile(r.reconcile)
	return nil
}

// controllerUID is the value of controllerIndex.
func controllerUID(obj runtime.Object) []string {
	if c := owner.ControllerOf(obj.(metav1.Object)); c != nil {
		return []string{string(c.UID)}
	}
	return []string{nobody}
}

// adopting names the ReplicaSets that may adopt a Pod which nothing controls.
func (r *reconciler) adopting(ctx context.Context, pod client.Object) []setpoint.Request {
	if owner.ControllerOf(pod) != nil || pod.GetDeletionTimestamp() != nil {
		return nil
	}
	var sets appsv1.ReplicaSetList
	// A ReplicaSet that the cache does not have yet is reconciled when it arrives.
	if err := r.client.List(ctx, &sets, client.InNamespace(pod.GetNamespace()), client.AllowStale); err != nil {
		setpoint.Logger(ctx).Error("Finding the ReplicaSets that may adopt a Pod", "pod", client.KeyOf(pod), "error", err)
		return nil
	}
	var requests []setpoint.Request
	for i := range sets.Items {
		selector, err := metav1.LabelSelectorAsSelector(sets.Items[i].Spec.Selector)
		if err == nil && !selector.Empty() && selector.Matches(labels.Set(pod.GetLabels())) {
			requests = append(requests, setpoint.RequestFor(&sets.Items[i]))
		}
	}
	return requests
}
