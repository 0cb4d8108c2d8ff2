package replicaset

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/cache"
)

// Kinds says how a manager of this operator is to cache kinds: of Pods only what decides. They are then a fraction of the
// memory and of the time of each reconcile; a manager that has controllers which read more of Pods does without.
func Kinds() map[schema.GroupKind]cache.Options {
	return map[schema.GroupKind]cache.Options{{Kind: "Pod"}: {Transform: keepWhatDecides}}
}

// keepWhatDecides drops from a Pod what the functions of this package do not read.
func keepWhatDecides(obj runtime.Object) error {
	pod := obj.(*corev1.Pod)
	kept := corev1.Pod{TypeMeta: pod.TypeMeta, ObjectMeta: pod.ObjectMeta}
	kept.Spec.NodeName = pod.Spec.NodeName
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil {
			kept.Spec.InitContainers = append(kept.Spec.InitContainers, corev1.Container{Name: c.Name, RestartPolicy: c.RestartPolicy})
		}
	}
	kept.Status.Phase = pod.Status.Phase
	if i := slices.IndexFunc(pod.Status.Conditions, isReady); i >= 0 {
		c := pod.Status.Conditions[i]
		kept.Status.Conditions = []corev1.PodCondition{{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime}}
	}
	kept.Status.InitContainerStatuses = restartsOf(pod.Status.InitContainerStatuses)
	kept.Status.ContainerStatuses = restartsOf(pod.Status.ContainerStatuses)
	*pod = kept
	return nil
}

// restartsOf returns what is kept of the containers that have restarted.
func restartsOf(containers []corev1.ContainerStatus) []corev1.ContainerStatus {
	var kept []corev1.ContainerStatus
	for _, c := range containers {
		if c.RestartCount > 0 {
			kept = append(kept, corev1.ContainerStatus{Name: c.Name, RestartCount: c.RestartCount})
		}
	}
	return kept
}
