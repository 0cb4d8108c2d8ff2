package node

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// The first restart of a container comes at once, the next after firstBackOff,
	// doubled each time up to lastBackOff, as the kubelet does it.
	firstBackOff = 10 * time.Second
	lastBackOff  = 5 * time.Minute

	exitKilled     = 137
	exitTerminated = 143
)

// container is one container on its way: its status, and what decides about it.
type container struct {
	spec   *corev1.Container
	course course
	status *corev1.ContainerStatus
	uid    types.UID // of the Pod
	memory memory
	record func(event)
}

// newStatus is the status of a container that has not started.
func newStatus(spec *corev1.Container, reason string) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name:    spec.Name,
		Image:   spec.Image,
		State:   corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}},
		Started: new(false),
	}
}

// advance takes every step that is due at now and returns when the next one is;
// zero if none comes by itself. The container may start: whatever had to be there
// before it is.
func (c container) advance(now time.Time) (next time.Time) {
	for {
		state, since := &c.status.State, c.memory.since(c.status)
		switch {
		case state.Running != nil && c.course.ends && due(since, c.course.run, now):
			c.end(c.course.exitCode, now)
		case state.Running != nil:
			return c.runOn(since, now)
		case state.Terminated != nil && !c.course.restarts(state.Terminated.ExitCode):
			return time.Time{}
		case state.Terminated != nil:
			c.backOff()
		case c.course.pullFails:
			c.failPull()
			return time.Time{}
		case state.Waiting != nil && state.Waiting.Reason == "CrashLoopBackOff" && !due(since, c.backOffTime(), now):
			return since.Add(c.backOffTime())
		default:
			c.start(now)
		}
	}
}

// runOn decides about readiness of a container that goes on running.
func (c container) runOn(since, now time.Time) (next time.Time) {
	c.status.Resources = c.spec.Resources.DeepCopy()
	c.status.AllocatedResources = c.spec.Resources.Requests.DeepCopy()
	c.status.Ready = due(since, c.course.ready, now)
	if !c.status.Ready {
		next = after(since, c.course.ready)
	}
	if c.course.ends {
		next = earlier(next, after(since, c.course.run))
	}
	return next
}

func (c container) start(now time.Time) {
	s := c.status
	if s.LastTerminationState.Terminated != nil {
		s.RestartCount++
	}
	s.Image = c.spec.Image
	s.ImageID = imageID(c.spec.Image)
	s.ContainerID = "setpoint://" + hash(string(c.uid), c.spec.Name, fmt.Sprint(s.RestartCount))
	s.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: seconds(now)}}
	s.Started = new(true)
	c.memory.changed[s.Name] = now
	c.record(event{reason: "Started", message: "Started container " + s.Name, container: s.Name})
}

// end lets the container end by itself or because it was told to.
func (c container) end(exitCode int32, now time.Time) {
	s := c.status
	reason := "Completed"
	if exitCode != 0 {
		reason = "Error"
	}
	ended := &corev1.ContainerStateTerminated{ExitCode: exitCode, Reason: reason, FinishedAt: seconds(now), ContainerID: s.ContainerID}
	if s.State.Running != nil {
		ended.StartedAt = s.State.Running.StartedAt
	}
	s.State = corev1.ContainerState{Terminated: ended}
	s.Ready, s.Started = false, new(false)
	c.memory.changed[s.Name] = now
}

// backOff begins the wait for the next start. The time of the end stays what
// counts.
func (c container) backOff() {
	s := c.status
	s.LastTerminationState = s.State
	s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
		Reason:  "CrashLoopBackOff",
		Message: fmt.Sprintf("back-off %s restarting failed container=%s", c.backOffTime(), s.Name),
	}}
	if c.backOffTime() > 0 {
		c.record(event{warning: true, reason: "BackOff", message: "Back-off restarting failed container " + s.Name, container: s.Name})
	}
}

// backOffTime passes between the end of the container and its next start.
func (c container) backOffTime() time.Duration {
	if c.status.RestartCount == 0 {
		return 0
	}
	shift := min(c.status.RestartCount-1, 16)
	return min(firstBackOff<<shift, lastBackOff)
}

func (c container) failPull() {
	s := c.status
	if s.State.Waiting != nil && s.State.Waiting.Reason == "ImagePullBackOff" {
		return
	}
	s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
		Reason:  "ImagePullBackOff",
		Message: fmt.Sprintf("Back-off pulling image %q", c.spec.Image),
	}}
	c.record(event{warning: true, reason: "Failed", container: s.Name,
		message: fmt.Sprintf("Failed to pull image %q: annotation %s says so", c.spec.Image, AnnotationImagePull)})
}

// due tells whether delay has passed since then.
func due(then time.Time, delay time.Duration, now time.Time) bool {
	return delay != never && !now.Before(then.Add(delay))
}

// after is then plus delay; zero, which is no time at all, for never.
func after(then time.Time, delay time.Duration) time.Time {
	if delay == never {
		return time.Time{}
	}
	return then.Add(delay)
}

// earlier is the earlier of two times, of which zero ones never come.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// seconds is the time as the API keeps it.
func seconds(t time.Time) metav1.Time {
	return metav1.NewTime(t.Truncate(time.Second))
}

// imageID gives each image an identity of its own that a digest would give it.
func imageID(image string) string {
	if strings.Contains(image, "@sha256:") {
		return image
	}
	return image + "@sha256:" + hash(image)
}

func hash(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "/")))
	return hex.EncodeToString(sum[:])
}
