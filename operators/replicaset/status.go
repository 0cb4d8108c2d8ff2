package replicaset

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// failure is why Pods could not be created or deleted.
type failure struct {
	reason string
	err    error
}

// withFailure returns the conditions with that of the failure, or without it. One for the same reason keeps its time.
func withFailure(conditions []appsv1.ReplicaSetCondition, f *failure, now time.Time) []appsv1.ReplicaSetCondition {
	i := slices.IndexFunc(conditions, func(c appsv1.ReplicaSetCondition) bool { return c.Type == appsv1.ReplicaSetReplicaFailure })
	switch {
	case f == nil && i < 0:
		return conditions
	case f == nil:
		return slices.Delete(conditions, i, i+1)
	case i >= 0 && conditions[i].Status == corev1.ConditionTrue && conditions[i].Reason == f.reason:
		conditions[i].Message = f.err.Error()
		return conditions
	case i >= 0:
		conditions = slices.Delete(conditions, i, i+1)
	}
	return append(conditions, appsv1.ReplicaSetCondition{
		Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue,
		Reason: f.reason, Message: f.err.Error(), LastTransitionTime: metav1.NewTime(now),
	})
}
