package node

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// setPhase derives the phase from the containers, as the kubelet does.
func (l *life) setPhase() {
	if deadline := l.pod.Spec.ActiveDeadlineSeconds; deadline != nil {
		end := l.status.StartTime.Add(time.Duration(*deadline) * time.Second)
		if !l.now.Before(end) {
			l.endAll(exitKilled)
			l.status.Phase = corev1.PodFailed
			l.status.Reason = "DeadlineExceeded"
			l.status.Message = "Pod was active on the node longer than the specified deadline"
			l.next = time.Time{}
			return
		}
		l.next = earlier(l.next, end)
	}
	l.status.Phase = l.phase()
	if finished(&corev1.Pod{Status: l.status}) {
		l.endSidecars()
		l.next = time.Time{}
	}
}

func (l *life) phase() corev1.PodPhase {
	for i := range l.status.InitContainerStatuses {
		c := l.container(&l.pod.Spec.InitContainers[i], &l.status.InitContainerStatuses[i], true)
		if initialized(c) {
			continue
		}
		if ended := c.status.State.Terminated; ended != nil && !c.course.restarts(ended.ExitCode) {
			return corev1.PodFailed
		}
		return corev1.PodPending
	}
	var waiting, running, failed bool
	for i := range l.status.ContainerStatuses {
		c := l.container(&l.pod.Spec.Containers[i], &l.status.ContainerStatuses[i], false)
		ended := c.status.State.Terminated
		switch {
		case c.status.State.Running != nil:
			running = true
		case ended == nil && c.status.LastTerminationState.Terminated == nil:
			waiting = true
		case ended == nil || c.course.restarts(ended.ExitCode):
			running = true
		case ended.ExitCode != 0:
			failed = true
		}
	}
	switch {
	case waiting:
		return corev1.PodPending
	case running:
		return corev1.PodRunning
	case failed:
		return corev1.PodFailed
	}
	return corev1.PodSucceeded
}

// endSidecars ends what outlives the containers that a finished Pod was about.
func (l *life) endSidecars() {
	for i := range l.status.InitContainerStatuses {
		c := l.container(&l.pod.Spec.InitContainers[i], &l.status.InitContainerStatuses[i], true)
		if c.status.State.Running != nil {
			c.end(0, l.now)
		}
	}
}

// setConditions derives the conditions that belong to the node, and leaves those
// of others alone. sandbox tells whether containers may start.
func (l *life) setConditions(sandbox bool) {
	done := l.status.Phase == corev1.PodSucceeded
	l.setCondition(corev1.PodReadyToStartContainers, sandbox && !finished(&corev1.Pod{Status: l.status}), "", "")
	l.setInitialized(done)

	var unready []string
	for _, s := range slices.Concat(l.sidecarStatuses(), l.status.ContainerStatuses) {
		if !s.Ready {
			unready = append(unready, s.Name)
		}
	}
	ready, reason, message := len(unready) == 0, "", ""
	switch {
	case done:
		ready, reason = false, "PodCompleted"
	case l.status.Phase == corev1.PodFailed:
		ready, reason = false, "PodFailed"
	case !ready:
		reason, message = "ContainersNotReady", fmt.Sprintf("containers with unready status: [%s]", strings.Join(unready, " "))
	}
	l.setCondition(corev1.ContainersReady, ready, reason, message)
	if open := l.openGates(); ready && len(open) > 0 {
		ready, reason, message = false, "ReadinessGatesNotReady", strings.Join(open, ", ")
	}
	l.setCondition(corev1.PodReady, ready, reason, message)
	l.setCondition(corev1.PodScheduled, true, "", "")
	l.status.ObservedGeneration = l.pod.Generation
}

func (l *life) setInitialized(done bool) {
	var waiting []string
	for i := range l.status.InitContainerStatuses {
		if c := l.container(&l.pod.Spec.InitContainers[i], &l.status.InitContainerStatuses[i], true); !initialized(c) && !done {
			waiting = append(waiting, c.spec.Name)
		}
	}
	switch {
	case done:
		l.setCondition(corev1.PodInitialized, true, "PodCompleted", "")
	case len(waiting) > 0:
		l.setCondition(corev1.PodInitialized, false, "ContainersNotInitialized",
			fmt.Sprintf("containers with incomplete status: [%s]", strings.Join(waiting, " ")))
	default:
		l.setCondition(corev1.PodInitialized, true, "", "")
	}
}

// sidecarStatuses are the init containers that count for readiness.
func (l *life) sidecarStatuses() []corev1.ContainerStatus {
	var statuses []corev1.ContainerStatus
	for i := range l.status.InitContainerStatuses {
		if c := l.container(&l.pod.Spec.InitContainers[i], &l.status.InitContainerStatuses[i], true); !c.course.first {
			statuses = append(statuses, *c.status)
		}
	}
	return statuses
}

// openGates says what is missing of the Pod's readiness gates.
func (l *life) openGates() []string {
	var open []string
	for _, gate := range l.pod.Spec.ReadinessGates {
		at := slices.IndexFunc(l.status.Conditions, func(c corev1.PodCondition) bool { return c.Type == gate.ConditionType })
		switch {
		case at < 0:
			open = append(open, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", gate.ConditionType))
		case l.status.Conditions[at].Status != corev1.ConditionTrue:
			open = append(open, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %s", gate.ConditionType, l.status.Conditions[at].Status))
		}
	}
	return open
}

// setCondition moves the transition time only when the status changes.
func (l *life) setCondition(kind corev1.PodConditionType, holds bool, reason, message string) {
	condition := corev1.PodCondition{
		Type: kind, Status: corev1.ConditionFalse, Reason: reason, Message: message,
		ObservedGeneration: l.pod.Generation, LastTransitionTime: seconds(l.now),
	}
	if holds {
		condition.Status = corev1.ConditionTrue
	}
	at := slices.IndexFunc(l.status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
	if at < 0 {
		l.status.Conditions = append(l.status.Conditions, condition)
		return
	}
	known := &l.status.Conditions[at]
	if known.Status == condition.Status {
		condition.LastTransitionTime = known.LastTransitionTime
	}
	condition.LastProbeTime = known.LastProbeTime
	*known = condition
}
