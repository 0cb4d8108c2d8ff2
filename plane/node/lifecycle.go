package node

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// memory is what a Pod's status cannot hold: when things happened to the
// nanosecond. A Pod that is met for the first time, after a restart of the plane,
// goes on from the seconds of its status.
type memory struct {
	begun    time.Time            // the node took the Pod over
	stopping time.Time            // the node learned of the deletion; zero: not deleted
	changed  map[string]time.Time // container → last change of its state
}

// since is when the container got into its state.
func (m memory) since(status *corev1.ContainerStatus) time.Time {
	if exact, ok := m.changed[status.Name]; ok {
		return exact
	}
	switch {
	case status.State.Running != nil:
		return status.State.Running.StartedAt.Time
	case status.State.Terminated != nil:
		return status.State.Terminated.FinishedAt.Time
	case status.LastTerminationState.Terminated != nil:
		return status.LastTerminationState.Terminated.FinishedAt.Time
	}
	return m.begun
}

// place is where a Pod runs.
type place struct {
	hostIP, podIP string
}

// outcome is what a node makes of a Pod at some time.
type outcome struct {
	status  corev1.PodStatus
	memory  memory
	next    time.Time // something changes by itself; zero: nothing does
	stopped bool      // the Pod is deleted and nothing of it runs
	events  []event
}

// event is something a kubelet would report.
type event struct {
	warning                    bool
	reason, message, container string
}

// advance is the whole life of a Pod on a node: it takes the Pod as the API has
// it through every step that is due at now. It changes nothing it is given. A Pod
// whose status comes back unchanged needs no write.
func advance(pod *corev1.Pod, at place, s script, m memory, now time.Time) outcome {
	o := outcome{status: *pod.Status.DeepCopy(), memory: memory{begun: m.begun, stopping: m.stopping, changed: maps.Clone(m.changed)}}
	if o.memory.changed == nil {
		o.memory.changed = map[string]time.Time{}
	}
	if o.memory.begun.IsZero() {
		o.memory.begun = now
		if pod.Status.StartTime != nil {
			o.memory.begun = pod.Status.StartTime.Time
		}
	}
	if pod.DeletionTimestamp != nil && o.memory.stopping.IsZero() {
		o.memory.stopping = now
	}

	l := &life{pod: pod, at: at, script: s, now: now, outcome: &o}
	switch stop := l.stopTime(); {
	case finished(pod):
		o.stopped = pod.DeletionTimestamp != nil
	case pod.DeletionTimestamp != nil && !now.Before(stop):
		l.stop()
	case s.evicted:
		l.evict()
	default:
		l.live()
		if pod.DeletionTimestamp != nil {
			o.next = earlier(o.next, stop)
		}
	}
	return o
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// life is one call of advance.
type life struct {
	pod    *corev1.Pod
	at     place
	script script
	now    time.Time
	*outcome
}

// stopTime is when the containers of a deleted Pod have ended: after the stop
// delay, or the grace period if that is shorter.
func (l *life) stopTime() time.Time {
	delay := l.script.stop
	if grace := l.pod.DeletionGracePeriodSeconds; grace != nil {
		delay = min(delay, time.Duration(*grace)*time.Second)
	}
	return after(l.memory.stopping, delay)
}

// live starts what may start and keeps running what runs.
func (l *life) live() {
	l.prepare()
	if !due(l.memory.begun, l.script.start, l.now) {
		l.next = after(l.memory.begun, l.script.start)
		l.setPhase()
		l.setConditions(false)
		return
	}
	l.status.PodIP, l.status.PodIPs = l.at.podIP, []corev1.PodIP{{IP: l.at.podIP}}
	if l.pod.DeletionTimestamp == nil {
		if l.runInitContainers() {
			l.runContainers()
		}
		l.runEphemeralContainers()
	}
	l.setPhase()
	l.setConditions(true)
}

// prepare fills in what a node knows as soon as it has the Pod.
func (l *life) prepare() {
	s := &l.status
	s.HostIP, s.HostIPs = l.at.hostIP, []corev1.HostIP{{IP: l.at.hostIP}}
	if s.StartTime == nil {
		started := seconds(l.now)
		s.StartTime = &started
	}
	waiting := "ContainerCreating"
	if len(l.pod.Spec.InitContainers) > 0 {
		waiting = "PodInitializing"
	}
	s.InitContainerStatuses = statusesOf(l.pod.Spec.InitContainers, s.InitContainerStatuses, waiting)
	s.ContainerStatuses = statusesOf(l.pod.Spec.Containers, s.ContainerStatuses, waiting)
}

// statusesOf is one status for each container, in the order of the spec.
func statusesOf(specs []corev1.Container, known []corev1.ContainerStatus, waiting string) []corev1.ContainerStatus {
	var statuses []corev1.ContainerStatus
	for i := range specs {
		at := slices.IndexFunc(known, func(s corev1.ContainerStatus) bool { return s.Name == specs[i].Name })
		if at < 0 {
			statuses = append(statuses, newStatus(&specs[i], waiting))
		} else {
			statuses = append(statuses, known[at])
		}
	}
	return statuses
}

// runInitContainers runs them one after the other and tells whether the other
// containers may start: regular ones have succeeded, sidecars have started.
func (l *life) runInitContainers() bool {
	for i := range l.pod.Spec.InitContainers {
		c := l.container(&l.pod.Spec.InitContainers[i], &l.status.InitContainerStatuses[i], true)
		l.next = earlier(l.next, c.advance(l.now))
		if c.course.first {
			c.status.Ready = succeeded(c.status)
		}
		if !initialized(c) {
			return false
		}
	}
	return true
}

// initialized tells whether the init container lets the next one start.
func initialized(c container) bool {
	if c.course.first {
		return succeeded(c.status)
	}
	return c.status.State.Running != nil || c.status.LastTerminationState.Terminated != nil
}

func succeeded(s *corev1.ContainerStatus) bool {
	return s.State.Terminated != nil && s.State.Terminated.ExitCode == 0
}

func (l *life) runContainers() {
	for i := range l.pod.Spec.Containers {
		c := l.container(&l.pod.Spec.Containers[i], &l.status.ContainerStatuses[i], false)
		l.next = earlier(l.next, c.advance(l.now))
	}
}

func (l *life) runEphemeralContainers() {
	known := l.status.EphemeralContainerStatuses
	l.status.EphemeralContainerStatuses = nil
	for _, ephemeral := range l.pod.Spec.EphemeralContainers {
		spec := corev1.Container(ephemeral.EphemeralContainerCommon)
		statuses := statusesOf([]corev1.Container{spec}, known, "ContainerCreating")
		if statuses[0].State.Waiting != nil {
			l.container(&spec, &statuses[0], true).start(l.now)
		}
		l.status.EphemeralContainerStatuses = append(l.status.EphemeralContainerStatuses, statuses...)
	}
}

func (l *life) container(spec *corev1.Container, status *corev1.ContainerStatus, init bool) container {
	return container{
		spec: spec, status: status, course: l.script.courseOf(l.pod, spec, init),
		uid: l.pod.UID, memory: l.memory,
		record: func(e event) { l.events = append(l.events, e) },
	}
}

// stop ends everything that runs of a deleted Pod. What was meant to run to
// completion was cut off, which is a failure.
func (l *life) stop() {
	l.prepare()
	code := int32(0)
	if l.pod.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		code = exitTerminated
	}
	l.endAll(code)
	l.status.Phase = corev1.PodSucceeded
	for _, s := range l.status.ContainerStatuses {
		if !succeeded(&s) {
			l.status.Phase = corev1.PodFailed
		}
	}
	l.setConditions(false)
	l.stopped = true
}

func (l *life) evict() {
	l.prepare()
	l.endAll(exitKilled)
	l.status.Phase = corev1.PodFailed
	l.status.Reason = "Evicted"
	l.status.Message = "The node was low on resource: memory."
	l.setConditions(false)
	l.setCondition(corev1.DisruptionTarget, true, "TerminationByKubelet", l.status.Message)
	l.events = append(l.events, event{warning: true, reason: "Evicted", message: l.status.Message})
	l.stopped = l.pod.DeletionTimestamp != nil
}

// endAll ends running containers and gives those that wait for a restart their
// last end back.
func (l *life) endAll(exitCode int32) {
	end := func(specs []corev1.Container, statuses []corev1.ContainerStatus, init bool) {
		for i := range specs {
			c := l.container(&specs[i], &statuses[i], init)
			switch {
			case c.status.State.Running != nil:
				c.end(exitCode, l.now)
				l.events = append(l.events, event{reason: "Killing", message: "Stopping container " + c.spec.Name, container: c.spec.Name})
			case c.status.State.Waiting != nil && c.status.LastTerminationState.Terminated != nil:
				c.status.State, c.status.LastTerminationState = c.status.LastTerminationState, corev1.ContainerState{}
			}
		}
	}
	end(l.pod.Spec.Containers, l.status.ContainerStatuses, false)
	end(l.pod.Spec.InitContainers, l.status.InitContainerStatuses, true)
}
