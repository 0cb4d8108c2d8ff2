package memcached

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint/owner"
)

// nodesOf returns those of the Pods that are nodes of set, in their order: controlled by it and not being deleted.
func nodesOf(set *appsv1.StatefulSet, pods []corev1.Pod) []corev1.Pod {
	var nodes []corev1.Pod
	for _, pod := range pods {
		if set != nil && owner.IsControlledBy(&pod, set) && pod.DeletionTimestamp == nil {
			nodes = append(nodes, pod)
		}
	}
	slices.SortFunc(nodes, func(a, b corev1.Pod) int { return ordinal(a.Name) - ordinal(b.Name) })
	return nodes
}

// ordinal returns the number at the end of a node's name.
func ordinal(name string) int {
	n, err := strconv.Atoi(name[strings.LastIndex(name, "-")+1:])
	if err != nil {
		return -1 // no StatefulSet made it
	}
	return n
}

// readiness returns the Pod's condition of being ready; its zero value when there is none yet.
func readiness(pod corev1.Pod) corev1.PodCondition {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c
		}
	}
	return corev1.PodCondition{}
}

func ready(pod corev1.Pod) bool { return readiness(pod).Status == corev1.ConditionTrue }

// failureOf says why a node will not get ready without help, or "". It names no number that grows and no state that comes
// and goes between the tries.
func failureOf(pod corev1.Pod) string {
	if ready(pod) {
		return ""
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if why := containerFailure(c); why != "" {
			return fmt.Sprintf("node %q does not get ready: container %q %s", pod.Name, c.Name, why)
		}
	}
	return ""
}

func containerFailure(c corev1.ContainerStatus) string {
	ended := c.State.Terminated
	if ended == nil {
		ended = c.LastTerminationState.Terminated
	}
	if ended != nil && ended.ExitCode != 0 {
		return fmt.Sprintf("ended with exit code %d", ended.ExitCode)
	}
	waiting := c.State.Waiting
	switch {
	case waiting == nil, waiting.Reason == "", waiting.Reason == "ContainerCreating", waiting.Reason == "PodInitializing":
		return ""
	case strings.Contains(waiting.Reason, "Image"):
		return "cannot pull its image"
	default:
		return "is in " + waiting.Reason
	}
}

// lastMove returns when a node last came up or got ready or unready.
func lastMove(nodes []corev1.Pod) time.Time {
	var last time.Time
	for _, pod := range nodes {
		for _, at := range []time.Time{pod.CreationTimestamp.Time, readiness(pod).LastTransitionTime.Time} {
			if at.After(last) {
				last = at
			}
		}
	}
	return last
}
