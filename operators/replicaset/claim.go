package replicaset

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// claim is what a ReplicaSet has, and what has to be done about whose Pods are whose.
type claim struct {
	active      []*corev1.Pod // that are the ReplicaSet's and count
	terminating int32         // how many that are the ReplicaSet's are being deleted
	adopt       []*corev1.Pod // that become the ReplicaSet's
	release     []*corev1.Pod // that cease to be
}

// claimOf sorts the Pods that the ReplicaSet controls, and those of its namespace that match its selector and that nothing
// controls.
func claimOf(set *appsv1.ReplicaSet, selector labels.Selector, owned, orphans []corev1.Pod) claim {
	var c claim
	for i := range owned {
		switch pod, matches := &owned[i], selector.Matches(labels.Set(owned[i].Labels)); {
		case finished(pod):
		case pod.DeletionTimestamp != nil:
			if matches {
				c.terminating++
			}
		case !matches:
			if set.DeletionTimestamp == nil {
				c.release = append(c.release, pod)
			}
		default:
			c.active = append(c.active, pod)
		}
	}
	if set.DeletionTimestamp != nil {
		return c
	}
	for i := range orphans {
		if pod := &orphans[i]; !finished(pod) && pod.DeletionTimestamp == nil {
			c.adopt = append(c.adopt, pod)
		}
	}
	return c
}

// remove turns an active Pod into one that is being deleted.
func (c *claim) remove(pod *corev1.Pod) {
	c.active = slices.DeleteFunc(c.active, func(p *corev1.Pod) bool { return p == pod })
	c.terminating++
}

// finished reports whether a Pod will never run again.
func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// replicas is how many Pods the ReplicaSet asks for.
func replicas(set *appsv1.ReplicaSet) int {
	if set.Spec.Replicas == nil {
		return 1 // as the server fills in
	}
	return int(*set.Spec.Replicas)
}
