package replicaset

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// statusOf returns the status of a ReplicaSet with these Pods, and in how long it will change by itself because a ready Pod
// becomes available; zero when it will not. failure is why Pods could not be created or deleted.
func statusOf(set *appsv1.ReplicaSet, c claim, failure *failure, now time.Time) (appsv1.ReplicaSetStatus, time.Duration) {
	status := *set.Status.DeepCopy()
	status.ObservedGeneration = set.Generation
	status.Replicas = int32(len(c.active))
	status.FullyLabeledReplicas, status.ReadyReplicas, status.AvailableReplicas = 0, 0, 0
	status.TerminatingReplicas = &c.terminating
	template := labels.SelectorFromSet(set.Spec.Template.Labels)
	patience := time.Duration(set.Spec.MinReadySeconds) * time.Second
	var wait time.Duration
	for _, pod := range c.active {
		if template.Matches(labels.Set(pod.Labels)) {
			status.FullyLabeledReplicas++
		}
		if !ready(pod) {
			continue
		}
		status.ReadyReplicas++
		left := readySince(pod).Add(patience).Sub(now)
		switch {
		case patience == 0 || left <= 0:
			status.AvailableReplicas++
		case wait == 0 || left < wait:
			wait = left
		}
	}
	status.Conditions = withFailure(status.Conditions, failure, now)
	return status, wait
}
