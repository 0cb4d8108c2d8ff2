package node

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Annotations of a Pod that script its life. They may be set, changed and removed
// while the Pod runs. A duration is one of time.ParseDuration; "never" means that
// the step does not come.
const (
	// AnnotationSchedule overrides Delays.Schedule.
	AnnotationSchedule = "node.setpoint.dev/schedule"
	// AnnotationStart overrides Delays.Start; "never" leaves the Pod in
	// ContainerCreating.
	AnnotationStart = "node.setpoint.dev/start"
	// AnnotationReady overrides Delays.Ready; "never" keeps or makes containers
	// unready.
	AnnotationReady = "node.setpoint.dev/ready"
	// AnnotationRun overrides Delays.Run, and makes containers end that would run
	// for ever. "never" keeps those of a Job running.
	AnnotationRun = "node.setpoint.dev/run"
	// AnnotationStop overrides Delays.Stop; "never" uses up the grace period.
	AnnotationStop = "node.setpoint.dev/stop"
	// AnnotationExitCode is the code with which containers end, after the run time.
	// Where the restart policy starts them again, this is a crash loop.
	AnnotationExitCode = "node.setpoint.dev/exit-code"
	// AnnotationImagePull with the value "fail" lets no container start for want of
	// its image.
	AnnotationImagePull = "node.setpoint.dev/image-pull"
	// AnnotationEvict with the value "true" evicts the Pod as a node short of
	// memory does: it fails with the reason Evicted.
	AnnotationEvict = "node.setpoint.dev/evict"
	// AnnotationContainers names the containers, separated by commas, that ready,
	// run, exit-code and image-pull are about. Without it they are about all
	// containers but init containers, which end with code 0.
	AnnotationContainers = "node.setpoint.dev/containers"
)

// never is a delay that does not end.
const never = time.Duration(math.MaxInt64)

// script is what Delays and annotations together say about one Pod.
type script struct {
	schedule, start, ready, run, stop time.Duration

	// The plain delays, for containers that the annotations are not about.
	plainReady, plainRun time.Duration

	ends       bool // containers end although nothing in the spec says so
	exitCode   int32
	pullFails  bool
	evicted    bool
	containers []string
}

// scriptOf reads the annotations. An annotation that cannot be read is left out
// and is one of the errors.
func scriptOf(pod *corev1.Pod, delays Delays) (script, error) {
	s := script{
		schedule: delays.Schedule, start: delays.Start, ready: delays.Ready, run: delays.Run, stop: delays.Stop,
		plainReady: delays.Ready, plainRun: delays.Run,
	}
	var errs []error
	duration := func(annotation string, into *time.Duration) bool {
		value, ok := pod.Annotations[annotation]
		if !ok {
			return false
		}
		d, err := parseDelay(value)
		if err != nil {
			errs = append(errs, fmt.Errorf("annotation %s: %w", annotation, err))
			return false
		}
		*into = d
		return true
	}
	duration(AnnotationSchedule, &s.schedule)
	duration(AnnotationStart, &s.start)
	duration(AnnotationReady, &s.ready)
	duration(AnnotationStop, &s.stop)
	s.ends = duration(AnnotationRun, &s.run)
	if value, ok := pod.Annotations[AnnotationExitCode]; ok {
		code, err := strconv.ParseUint(value, 10, 8)
		if err != nil {
			errs = append(errs, fmt.Errorf("annotation %s: %q is not a number from 0 to 255", AnnotationExitCode, value))
		} else {
			s.exitCode, s.ends = int32(code), true
		}
	}
	s.pullFails = oneOf(pod, AnnotationImagePull, "fail", &errs)
	s.evicted = oneOf(pod, AnnotationEvict, "true", &errs)
	if value := pod.Annotations[AnnotationContainers]; value != "" {
		s.containers = strings.Split(value, ",")
	}
	return s, errors.Join(errs...)
}

func parseDelay(value string) (time.Duration, error) {
	if value == "never" {
		return never, nil
	}
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is neither a duration such as 1s nor never", value)
	}
	return d, nil
}

func oneOf(pod *corev1.Pod, annotation, value string, errs *[]error) bool {
	got, ok := pod.Annotations[annotation]
	if ok && got != value {
		*errs = append(*errs, fmt.Errorf("annotation %s: %q is not %q", annotation, got, value))
	}
	return got == value
}

// about tells whether the annotations speak of the container.
func (s script) about(name string, init bool) bool {
	if len(s.containers) == 0 {
		return !init
	}
	return slices.Contains(s.containers, name)
}

// course is the script of one container.
type course struct {
	first     bool // must succeed before the next container starts
	ends      bool
	run       time.Duration
	exitCode  int32
	ready     time.Duration
	pullFails bool
	restarts  func(exitCode int32) bool
}

// courseOf says how the container goes: what runs to completion, with which code,
// and what comes after it.
func (s script) courseOf(pod *corev1.Pod, container *corev1.Container, init bool) course {
	sidecar := init && container.RestartPolicy != nil && *container.RestartPolicy == corev1.ContainerRestartPolicyAlways
	c := course{
		first:    init && !sidecar,
		ends:     init && !sidecar || !init && runsToCompletion(pod),
		run:      s.plainRun,
		ready:    s.plainReady,
		restarts: restartsOf(pod, container),
	}
	if s.about(container.Name, init) {
		c.ends = c.ends || s.ends
		c.run, c.ready, c.exitCode, c.pullFails = s.run, s.ready, s.exitCode, s.pullFails
	}
	return c
}

// runsToCompletion tells whether the containers of the Pod are meant to end.
func runsToCompletion(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "Job" && pod.Spec.RestartPolicy != corev1.RestartPolicyAlways
}

// restartsOf is the restart policy of a container: its own, or the Pod's. A
// regular init container that succeeded is never started again.
func restartsOf(pod *corev1.Pod, container *corev1.Container) func(exitCode int32) bool {
	policy := pod.Spec.RestartPolicy
	init := slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == container.Name })
	if init && policy == corev1.RestartPolicyAlways {
		policy = corev1.RestartPolicyOnFailure
	}
	if container.RestartPolicy != nil {
		policy = corev1.RestartPolicy(*container.RestartPolicy)
	}
	return func(exitCode int32) bool {
		return policy == corev1.RestartPolicyAlways || policy == corev1.RestartPolicyOnFailure && exitCode != 0
	}
}
