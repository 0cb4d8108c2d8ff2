package replicaset

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// pod is a Pod that runs and is ready since an hour, but for what options change.
func pod(name string, options ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(name), Labels: map[string]string{"app": "web"}, Annotations: map[string]string{},
			CreationTimestamp: metav1.NewTime(now.Add(-2 * time.Hour)),
		},
		Spec:   corev1.PodSpec{NodeName: "node"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	readyFor(time.Hour)(p)
	for _, option := range options {
		option(p)
	}
	return p
}

func readyFor(d time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-d)),
		}}
	}
}

func phase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

func deleting(p *corev1.Pod) {
	at := metav1.NewTime(now)
	p.DeletionTimestamp = &at
}

func labelled(value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels["app"] = value }
}

func names(pods []*corev1.Pod) string {
	all := make([]string, len(pods))
	for i, p := range pods {
		all[i] = p.Name
	}
	return strings.Join(all, " ")
}

// Each Pod is less of a loss than the next one for another reason.
func TestSurplus(t *testing.T) {
	notReady := func(p *corev1.Pod) { p.Status.Conditions = nil }
	cost := func(text string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations[corev1.PodDeletionCost] = text }
	}
	restarted := func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 3}} }
	initialised := func(policy *corev1.ContainerRestartPolicy) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "init", RestartPolicy: policy}}
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "init", RestartCount: 9}}
		}
	}
	created := func(ago time.Duration) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(now.Add(-ago)) }
	}
	order := []*corev1.Pod{
		pod("unassigned", func(p *corev1.Pod) { p.Spec.NodeName = "" }),
		pod("pending", phase(corev1.PodPending), notReady),
		pod("unknown", phase(corev1.PodUnknown), notReady),
		pod("not-ready-restarted", notReady, restarted),
		pod("not-ready-young", notReady, created(time.Minute)),
		pod("not-ready", notReady),
		pod("cheap", cost("-1")),
		pod("crowded", func(p *corev1.Pod) { p.Spec.NodeName = "full" }, cost("no number")),
		pod("just-ready", readyFor(time.Minute)),
		pod("restarted", restarted),
		pod("sidecar-restarted", initialised(new(corev1.ContainerRestartPolicyAlways))),
		pod("usual", initialised(nil), created(24*time.Hour)),
		pod("dear", cost("100")),
	}
	shuffled := slices.Clone(order)
	slices.Reverse(shuffled)
	for n := range len(order) + 1 {
		got := surplus(shuffled, n, map[string]int{"full": 5, "node": 1}, now)
		if n == len(order) {
			slices.SortFunc(got, func(a, b *corev1.Pod) int { return slices.Index(order, a) - slices.Index(order, b) })
		}
		if diff := cmp.Diff(names(order[:n]), names(got)); diff != "" {
			t.Errorf("the %d to delete:\n%s", n, diff)
		}
	}
}

// All that are deleted are counted out: the list of what to delete is not the list that shrinks meanwhile.
func TestSurplusIsItsOwn(t *testing.T) {
	c := claim{active: []*corev1.Pod{pod("a"), pod("b"), pod("c")}}
	for _, p := range surplus(c.active, 3, nil, now) {
		c.remove(p)
	}
	if len(c.active) != 0 || c.terminating != 3 {
		t.Errorf("%s are left, and %d are being deleted", names(c.active), c.terminating)
	}
}

func set(options ...func(*appsv1.ReplicaSet)) *appsv1.ReplicaSet {
	s := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "set", Generation: 3},
		Spec: appsv1.ReplicaSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web", "tier": "front"}}},
		},
	}
	for _, option := range options {
		option(s)
	}
	return s
}

func TestClaim(t *testing.T) {
	owned := []corev1.Pod{
		*pod("kept"), *pod("failed", phase(corev1.PodFailed)), *pod("succeeded", phase(corev1.PodSucceeded)),
		*pod("deleting", deleting), *pod("strayed-deleting", deleting, labelled("other")), *pod("deleting-failed", deleting, phase(corev1.PodFailed)), *pod("strayed", labelled("other")),
	}
	orphans := []corev1.Pod{*pod("orphan"), *pod("deleting-orphan", deleting), *pod("failed-orphan", phase(corev1.PodFailed))}
	matching := labels.SelectorFromSet(labels.Set{"app": "web"})

	c := claimOf(set(), matching, owned, orphans)
	if got := fmt.Sprintf("%s; %d; %s; %s", names(c.active), c.terminating, names(c.adopt), names(c.release)); got != "kept; 1; orphan; strayed" {
		t.Errorf("active; terminating; adopt; release: %s", got)
	}
	at := metav1.NewTime(now)
	c = claimOf(set(func(s *appsv1.ReplicaSet) { s.DeletionTimestamp = &at }), matching, owned, orphans)
	if got := fmt.Sprintf("%s; %d; %s; %s", names(c.active), c.terminating, names(c.adopt), names(c.release)); got != "kept; 1; ; " {
		t.Errorf("of a set that is being deleted: %s", got)
	}
}

func TestStatus(t *testing.T) {
	c := claim{terminating: 2, active: []*corev1.Pod{
		pod("old", func(p *corev1.Pod) { p.Labels["tier"] = "front" }), pod("young", readyFor(10*time.Second)),
		pod("younger", readyFor(time.Second)), pod("not-ready", func(p *corev1.Pod) { p.Status.Conditions = nil }),
	}}
	patient := set(func(s *appsv1.ReplicaSet) { s.Spec.MinReadySeconds = 30 })
	status, wait := statusOf(patient, c, nil, now)
	want := appsv1.ReplicaSetStatus{
		Replicas: 4, FullyLabeledReplicas: 1, ReadyReplicas: 3, AvailableReplicas: 1, TerminatingReplicas: new(int32(2)), ObservedGeneration: 3,
	}
	if diff := cmp.Diff(want, status); diff != "" || wait != 20*time.Second {
		t.Errorf("it waits for %v; the status (-want +got):\n%s", wait, diff)
	}
	if status, wait = statusOf(set(), c, nil, now); status.AvailableReplicas != 3 || wait != 0 {
		t.Errorf("without MinReadySeconds %d are available, and it waits for %v", status.AvailableReplicas, wait)
	}
}

// A failure keeps its time while its reason is the same, and goes when all is well.
func TestReplicaFailure(t *testing.T) {
	at := func(s *appsv1.ReplicaSet, f *failure, when time.Time) []appsv1.ReplicaSetCondition {
		s.Status, _ = statusOf(s, claim{}, f, when)
		return s.Status.Conditions
	}
	s := set()
	first := at(s, &failure{reasonCreateFailed, errors.New("quota")}, now)
	second := at(s, &failure{reasonCreateFailed, errors.New("webhook")}, now.Add(time.Minute))
	if len(first) != 1 || len(second) != 1 || second[0].Message != "webhook" || !second[0].LastTransitionTime.Time.Equal(now) {
		t.Errorf("first %+v, then %+v", first, second)
	}
	third := at(s, &failure{reasonDeleteFailed, errors.New("forbidden")}, now.Add(time.Minute))
	if len(third) != 1 || third[0].Reason != reasonDeleteFailed || !third[0].LastTransitionTime.Time.Equal(now.Add(time.Minute)) {
		t.Errorf("for another reason: %+v", third)
	}
	if c := at(s, nil, now); len(c) != 0 {
		t.Errorf("when all is well: %+v", c)
	}
}

// A failure is told without the name that the server made up for what it refused.
func TestNameless(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for name, want := range map[string]string{
		"web-x7k2p": `create: pods "web-" is forbidden: quota`,
		"web-":      `create: pods "web-" is forbidden: quota`,
		"other":     `create: pods "other" is forbidden: quota`,
	} {
		err := nameless(fmt.Errorf("create: %w", apierrors.NewForbidden(pods, name, errors.New("quota"))), "web-")
		if err.Error() != want || !apierrors.IsForbidden(err) {
			t.Errorf("about %s: %v", name, err)
		}
	}
	if err := nameless(io.EOF, "web-"); err != io.EOF {
		t.Errorf("of one that is not the server's: %v", err)
	}
}

// Batches double, and the one that fails is the last.
func TestBatches(t *testing.T) {
	for failing, want := range map[int]int{-1: 20, 0: 1, 2: 3, 9: 15} {
		var mu sync.Mutex
		done := map[int]bool{}
		err := batches(20, func(i int) error {
			mu.Lock()
			defer mu.Unlock()
			done[i] = true
			if i == failing {
				return errors.New("no")
			}
			return nil
		})
		if len(done) != want || (err == nil) != (failing < 0) {
			t.Errorf("when %d fails, %d of 20 are tried, want %d; %v", failing, len(done), want, err)
		}
	}
}

// What the cache keeps of a Pod decides as the whole Pod does.
func TestKeptPodsDecideAlike(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	restarted := func(name string, times int32) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, RestartCount: times, Image: "image", ContainerID: "id"}
	}
	pods := []*corev1.Pod{
		pod("plain"), pod("pending", phase(corev1.PodPending)), pod("failed", phase(corev1.PodFailed)), pod("deleted", deleting),
		pod("young", readyFor(time.Minute)), pod("other", labelled("other")),
		pod("unscheduled", func(p *corev1.Pod) { p.Spec.NodeName = "" }),
		pod("cheap", func(p *corev1.Pod) { p.Annotations[corev1.PodDeletionCost] = "-5" }),
		pod("unready", func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }),
		pod("undated", func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.Time{} }),
		pod("restarted", func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{restarted("a", 0), restarted("b", 3)}
		}),
		pod("sidecar", func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "init"}, {Name: "side", RestartPolicy: &always}}
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{restarted("init", 9), restarted("side", 2)}
		}),
	}
	set := set()
	whole, kept := make([]corev1.Pod, 0, len(pods)), make([]corev1.Pod, 0, len(pods))
	for _, p := range pods {
		p.Spec.Containers = []corev1.Container{{Name: "a", Image: strings.Repeat("long", 500)}}
		whole = append(whole, *p.DeepCopy())
		if err := Kinds()[schema.GroupKind{Kind: "Pod"}].Transform(p); err != nil {
			t.Fatal(err)
		}
		kept = append(kept, *p)
		if p.Size() > 500 {
			t.Errorf("%s still takes %d bytes", p.Name, p.Size())
		}
	}
	selector := labels.SelectorFromSet(labels.Set{"app": "web"})
	a, b := claimOf(set, selector, whole, nil), claimOf(set, selector, kept, nil)
	if diff := cmp.Diff([]any{names(a.active), names(a.release), a.terminating}, []any{names(b.active), names(b.release), b.terminating}); diff != "" {
		t.Error("claim:\n", diff)
	}
	before, _ := statusOf(set, a, nil, now)
	after, _ := statusOf(set, b, nil, now)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Error("status:\n", diff)
	}
	for i := range whole {
		for j := range whole {
			if x, y := compare(&whole[i], &whole[j], nil, now), compare(&kept[i], &kept[j], nil, now); x != y {
				t.Errorf("%s against %s: %d, kept %d", whole[i].Name, whole[j].Name, x, y)
			}
		}
	}
}
