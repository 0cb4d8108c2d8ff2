package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	birth = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	here  = place{hostIP: "172.20.0.1", podIP: "10.128.0.1"}
)

// specimen is a Pod with one container, as its node first sees it.
func specimen(change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "u", Generation: 1},
		Spec: corev1.PodSpec{
			NodeName: "node-0", RestartPolicy: corev1.RestartPolicyAlways,
			Containers: []corev1.Container{{Name: "app", Image: "nginx"}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(birth.Add(-time.Hour))},
		}},
	}
	for _, c := range change {
		c(pod)
	}
	return pod
}

func annotated(annotation, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { metav1.SetMetaDataAnnotation(&pod.ObjectMeta, annotation, value) }
}

func restartPolicy(policy corev1.RestartPolicy) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.RestartPolicy = policy }
}

func ofJob(pod *corev1.Pod) {
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: "j", Controller: new(true)}}
}

func withInit(containers ...corev1.Container) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.InitContainers = containers }
}

func sidecar(name string) corev1.Container {
	return corev1.Container{Name: name, Image: "proxy", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}
}

func deleted(grace int64) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.DeletionTimestamp = &metav1.Time{Time: birth.Add(time.Duration(grace) * time.Second)}
		pod.DeletionGracePeriodSeconds = &grace
	}
}

// summary says in one line what matters of a Pod: phase, containers, readiness.
func summary(status corev1.PodStatus) string {
	parts := []string{string(status.Phase)}
	if status.Reason != "" {
		parts[0] += "/" + status.Reason
	}
	for _, s := range slices.Concat(status.InitContainerStatuses, status.ContainerStatuses) {
		state := "running"
		switch {
		case s.State.Waiting != nil:
			state = s.State.Waiting.Reason
		case s.State.Terminated != nil:
			state = fmt.Sprintf("%s(%d)", s.State.Terminated.Reason, s.State.Terminated.ExitCode)
		}
		if s.RestartCount > 0 {
			state += fmt.Sprintf("x%d", s.RestartCount)
		}
		parts = append(parts, s.Name+"="+state)
	}
	for _, c := range status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			parts = append(parts, "ready")
		}
	}
	return strings.Join(parts, " ")
}

// observe takes the Pod through its life by itself: it applies each outcome and
// moves on to when the next one is due, up to the end of the observation.
func observe(pod *corev1.Pod, delays Delays, length time.Duration) []string {
	var seen []string
	var m memory
	for now := birth; ; {
		s, _ := scriptOf(pod, delays)
		o := advance(pod, here, s, m, now)
		pod.Status, m = o.status, o.memory
		line := summary(o.status)
		if o.stopped {
			line += " stopped"
		}
		if len(seen) == 0 || !strings.HasSuffix(seen[len(seen)-1], " "+line) {
			seen = append(seen, fmt.Sprintf("%s %s", now.Sub(birth), line))
		}
		if o.next.IsZero() || o.next.Sub(birth) > length {
			return seen
		}
		now = o.next
	}
}

func TestLife(t *testing.T) {
	slow := Delays{Start: time.Second, Ready: 2 * time.Second, Run: 4 * time.Second, Stop: 8 * time.Second}
	for name, test := range map[string]struct {
		pod    *corev1.Pod
		delays Delays
		want   []string
	}{
		"at once": {pod: specimen(), want: []string{"0s Running app=running ready"}},
		"with delays": {pod: specimen(), delays: slow, want: []string{
			"0s Pending app=ContainerCreating", "1s Running app=running", "3s Running app=running ready",
		}},
		"of a Job": {pod: specimen(ofJob), want: []string{"0s Succeeded app=Completed(0)"}},
		"of a Job with delays": {pod: specimen(ofJob), delays: slow, want: []string{
			"0s Pending app=ContainerCreating", "1s Running app=running", "3s Running app=running ready", "5s Succeeded app=Completed(0)",
		}},
		"of a Job that fails":  {pod: specimen(ofJob, annotated(AnnotationExitCode, "3")), want: []string{"0s Failed app=Error(3)"}},
		"not of a Job runs on": {pod: specimen(restartPolicy(corev1.RestartPolicyNever)), want: []string{"0s Running app=running ready"}},
		"crash loop": {pod: specimen(annotated(AnnotationExitCode, "1")), want: []string{
			"0s Running app=CrashLoopBackOffx1", "10s Running app=CrashLoopBackOffx2", "30s Running app=CrashLoopBackOffx3",
			"1m10s Running app=CrashLoopBackOffx4", "2m30s Running app=CrashLoopBackOffx5",
		}},
		"crash loop of slow containers": {pod: specimen(annotated(AnnotationExitCode, "1"), annotated(AnnotationRun, "1s")), want: []string{
			"0s Running app=running ready", "1s Running app=runningx1 ready", "2s Running app=CrashLoopBackOffx1",
			"12s Running app=runningx2 ready", "13s Running app=CrashLoopBackOffx2", "33s Running app=runningx3 ready",
			"34s Running app=CrashLoopBackOffx3", "1m14s Running app=runningx4 ready", "1m15s Running app=CrashLoopBackOffx4",
			"2m35s Running app=runningx5 ready", "2m36s Running app=CrashLoopBackOffx5",
		}},
		"ends by annotation": {pod: specimen(restartPolicy(corev1.RestartPolicyOnFailure), annotated(AnnotationRun, "1s")), want: []string{
			"0s Running app=running ready", "1s Succeeded app=Completed(0)",
		}},
		"never ready":     {pod: specimen(annotated(AnnotationReady, "never")), want: []string{"0s Running app=running"}},
		"never started":   {pod: specimen(annotated(AnnotationStart, "never")), want: []string{"0s Pending app=ContainerCreating"}},
		"no image":        {pod: specimen(annotated(AnnotationImagePull, "fail")), want: []string{"0s Pending app=ImagePullBackOff"}},
		"evicted":         {pod: specimen(annotated(AnnotationEvict, "true")), want: []string{"0s Failed/Evicted app=ContainerCreating"}},
		"init containers": {pod: specimen(withInit(corev1.Container{Name: "a"}, corev1.Container{Name: "b"})), want: []string{"0s Running a=Completed(0) b=Completed(0) app=running ready"}},
		"init with delays": {pod: specimen(withInit(corev1.Container{Name: "a"}, corev1.Container{Name: "b"})), delays: slow, want: []string{
			"0s Pending a=PodInitializing b=PodInitializing app=PodInitializing",
			"1s Pending a=running b=PodInitializing app=PodInitializing",
			"5s Pending a=Completed(0) b=running app=PodInitializing",
			"9s Running a=Completed(0) b=Completed(0) app=running",
			"11s Running a=Completed(0) b=Completed(0) app=running ready",
		}},
		"failing init": {pod: specimen(withInit(corev1.Container{Name: "a"}), annotated(AnnotationExitCode, "1"), annotated(AnnotationContainers, "a"), restartPolicy(corev1.RestartPolicyNever)), want: []string{
			"0s Failed a=Error(1) app=PodInitializing",
		}},
		"crashing init": {pod: specimen(withInit(corev1.Container{Name: "a"}), annotated(AnnotationExitCode, "1"), annotated(AnnotationContainers, "a")), want: []string{
			"0s Pending a=CrashLoopBackOffx1 app=PodInitializing", "10s Pending a=CrashLoopBackOffx2 app=PodInitializing",
			"30s Pending a=CrashLoopBackOffx3 app=PodInitializing", "1m10s Pending a=CrashLoopBackOffx4 app=PodInitializing",
			"2m30s Pending a=CrashLoopBackOffx5 app=PodInitializing",
		}},
		"sidecar":          {pod: specimen(withInit(sidecar("proxy"))), want: []string{"0s Running proxy=running app=running ready"}},
		"sidecar unready":  {pod: specimen(withInit(sidecar("proxy")), annotated(AnnotationReady, "never"), annotated(AnnotationContainers, "proxy")), want: []string{"0s Running proxy=running app=running"}},
		"sidecar of a Job": {pod: specimen(ofJob, withInit(sidecar("proxy"))), want: []string{"0s Succeeded proxy=Completed(0) app=Completed(0)"}},
		"deadline": {pod: specimen(func(pod *corev1.Pod) { pod.Spec.ActiveDeadlineSeconds = new(int64(7)) }), want: []string{
			"0s Running app=running ready", "7s Failed/DeadlineExceeded app=Error(137)",
		}},
		"deleted": {pod: specimen(deleted(30), restartPolicy(corev1.RestartPolicyAlways)), want: []string{"0s Failed app=ContainerCreating stopped"}},
		"readiness gate": {pod: specimen(func(pod *corev1.Pod) {
			pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/lb"}}
		}), want: []string{"0s Running app=running"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := observe(test.pod, test.delays, 4*time.Minute); !slices.Equal(got, test.want) {
				t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(test.want, "\n\t"))
			}
		})
	}
}

func TestDeletion(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		delays Delays
		want   []string
	}{
		"at once":                {want: []string{"0s Succeeded app=Completed(0) stopped"}},
		"stops within the grace": {delays: Delays{Stop: 5 * time.Second}, want: []string{"0s Running app=running ready", "5s Succeeded app=Completed(0) stopped"}},
		"stops after the grace":  {delays: Delays{Stop: time.Hour}, want: []string{"0s Running app=running ready", "30s Succeeded app=Completed(0) stopped"}},
		"never stops by itself":  {change: annotated(AnnotationStop, "never"), want: []string{"0s Running app=running ready", "30s Succeeded app=Completed(0) stopped"}},
		"was to run to the end":  {change: restartPolicy(corev1.RestartPolicyNever), want: []string{"0s Failed app=Error(143) stopped"}},
		"of a finished Pod":      {change: func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded }, want: []string{"0s Succeeded app=running ready stopped"}},
		"no restart while it ends": {change: annotated(AnnotationExitCode, "1"), delays: Delays{Stop: time.Minute}, want: []string{
			"0s Running app=running ready", "30s Succeeded app=Completed(0) stopped",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := specimen()
			observe(pod, Delays{}, 0)
			deleted(30)(pod)
			if test.change != nil {
				test.change(pod)
			}
			if got := observe(pod, test.delays, time.Hour); !slices.Equal(got, test.want) {
				t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(test.want, "\n\t"))
			}
		})
	}
}

// What a node writes once it writes never again: an outcome applied is at rest.
func TestAtRest(t *testing.T) {
	for name, pod := range map[string]*corev1.Pod{
		"running": specimen(), "finished": specimen(ofJob), "crashing": specimen(annotated(AnnotationExitCode, "1")),
		"without image": specimen(annotated(AnnotationImagePull, "fail")),
		"unready":       specimen(withInit(sidecar("proxy")), annotated(AnnotationReady, "never")),
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := scriptOf(pod, Delays{})
			first := advance(pod, here, s, memory{}, birth)
			pod.Status = first.status
			second := advance(pod, here, s, first.memory, birth.Add(3*time.Second))
			if got, want := second.status.String(), first.status.String(); got != want {
				t.Errorf("a second look changed the status\nfrom %s\nto   %s", want, got)
			}
			if len(second.events) > 0 {
				t.Errorf("a second look had Events: %v", second.events)
			}
		})
	}
}

// A node that comes back knows a Pod by its status only, and goes on.
func TestForgottenMemory(t *testing.T) {
	pod := specimen(annotated(AnnotationExitCode, "1"))
	s, _ := scriptOf(pod, Delays{})
	pod.Status = advance(pod, here, s, memory{}, birth).status

	early := advance(pod, here, s, memory{}, birth.Add(9*time.Second))
	if got := summary(early.status); got != "Running app=CrashLoopBackOffx1" || !early.next.Equal(birth.Add(10*time.Second)) {
		t.Errorf("before the restart: %s, next at %s", got, early.next)
	}
	late := advance(pod, here, s, memory{}, birth.Add(time.Hour))
	if got := summary(late.status); got != "Running app=CrashLoopBackOffx2" {
		t.Errorf("an hour later: %s, want one restart and no more", got)
	}
}

// An annotation added to a running Pod changes its life from then on.
func TestScriptChanges(t *testing.T) {
	pod := specimen()
	s, _ := scriptOf(pod, Delays{})
	o := advance(pod, here, s, memory{}, birth)
	pod.Status = o.status
	annotated(AnnotationReady, "never")(pod)
	s, _ = scriptOf(pod, Delays{})
	o = advance(pod, here, s, o.memory, birth.Add(time.Minute))
	if got := summary(o.status); got != "Running app=running" {
		t.Errorf("got %s, want it unready", got)
	}
	at := slices.IndexFunc(o.status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
	if moved := o.status.Conditions[at].LastTransitionTime; !moved.Time.Equal(birth.Add(time.Minute)) {
		t.Errorf("Ready changed at %s", moved)
	}
}

func TestStatusDetails(t *testing.T) {
	pod := specimen(func(pod *corev1.Pod) {
		pod.Generation = 7
		pod.Status.QOSClass = corev1.PodQOSBurstable
		pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/lb"}}
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: "example.com/lb", Status: corev1.ConditionTrue, Reason: "Theirs"})
	})
	before := pod.DeepCopy()
	s, _ := scriptOf(pod, Delays{})
	got := advance(pod, here, s, memory{}, birth).status

	if pod.String() != before.String() {
		t.Error("advance changed the Pod it was given")
	}
	if got.ObservedGeneration != 7 || got.QOSClass != corev1.PodQOSBurstable || got.HostIP != here.hostIP || got.PodIP != here.podIP ||
		got.PodIPs[0].IP != here.podIP || got.HostIPs[0].IP != here.hostIP || !got.StartTime.Time.Equal(birth) {
		t.Errorf("status is %s", got.String())
	}
	var conditions []string
	for _, c := range got.Conditions {
		conditions = append(conditions, fmt.Sprintf("%s=%s@%d", c.Type, c.Status, c.ObservedGeneration))
	}
	want := []string{"PodScheduled=True@7", "example.com/lb=True@0", "PodReadyToStartContainers=True@7", "Initialized=True@7", "ContainersReady=True@7", "Ready=True@7"}
	if !slices.Equal(conditions, want) {
		t.Errorf("conditions are %v, want %v", conditions, want)
	}
	if scheduled := got.Conditions[0].LastTransitionTime; !scheduled.Time.Equal(birth.Add(-time.Hour)) {
		t.Errorf("PodScheduled moved to %s although it was True", scheduled)
	}
	if c := got.ContainerStatuses[0]; !c.Ready || !*c.Started || c.ContainerID == "" || !strings.HasPrefix(c.ImageID, "nginx@sha256:") {
		t.Errorf("container status is %s", c.String())
	}
}

func TestScriptErrors(t *testing.T) {
	pod := specimen(annotated(AnnotationReady, "soon"), annotated(AnnotationExitCode, "256"), annotated(AnnotationEvict, "yes"), annotated(AnnotationRun, "-1s"))
	s, err := scriptOf(pod, Delays{Ready: time.Second})
	if err == nil {
		t.Fatal("no error")
	}
	for _, annotation := range []string{AnnotationReady, AnnotationExitCode, AnnotationEvict, AnnotationRun} {
		if !strings.Contains(err.Error(), annotation) {
			t.Errorf("the error does not name %s: %v", annotation, err)
		}
	}
	if s.ready != time.Second || s.ends || s.evicted {
		t.Errorf("what cannot be read had an effect: %+v", s)
	}
}
