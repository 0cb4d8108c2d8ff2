package memcached

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/condition"
	v1 "github.com/setpoint-dev/setpoint/operators/memcached/v1"
	"github.com/setpoint-dev/setpoint/webhook"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// newMemcached returns a Memcached as the server hands it out, changed by the given functions.
func newMemcached(change ...func(*v1.Memcached)) *v1.Memcached {
	mc := &v1.Memcached{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "mc-uid", Generation: 7},
		Spec:       v1.MemcachedSpec{Size: new(int32(3)), Image: "memcached:1.6.39", ContainerPort: 11211},
	}
	for _, c := range change {
		c(mc)
	}
	return mc
}

// node returns the Pod of that number, ready an hour before noon, changed by the given functions.
func node(number int, change ...func(*corev1.Pod)) corev1.Pod {
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprintf("web-%d", number), CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour)),
			OwnerReferences: []metav1.OwnerReference{{Kind: "StatefulSet", Name: "web", UID: "set-uid", Controller: new(true)}},
		},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(-time.Hour)),
		}}},
	}
	for _, c := range change {
		c(&pod)
	}
	return pod
}

func unready(pod *corev1.Pod) { pod.Status.Conditions[0].Status = corev1.ConditionFalse }

func waiting(reason string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		unready(pod)
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "memcached", State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}
	}
}

// running returns what a reconcile finds when all three nodes are there, changed by the given functions.
func running(change ...func(*outcome)) outcome {
	set := statefulSet(newMemcached())
	set.UID, set.Generation = "set-uid", 2
	set.Status = appsv1.StatefulSetStatus{ObservedGeneration: 2, Replicas: 3, ReadyReplicas: 3, UpdatedReplicas: 3}
	o := outcome{
		set: child{kind: "StatefulSet", there: true}, service: child{kind: "Service", there: true},
		budget: child{kind: "PodDisruptionBudget", there: true}, nodes: set,
	}
	for _, c := range change {
		c(&o)
	}
	return o
}

func TestStanding(t *testing.T) {
	now := metav1.Now()
	for _, test := range []struct {
		why    string
		change func(*corev1.Service)
		want   standing
	}{
		{"its own", func(*corev1.Service) {}, own},
		{"its own, on the way out", func(s *corev1.Service) { s.DeletionTimestamp = &now }, ending},
		{"nobody's", func(s *corev1.Service) { s.OwnerReferences = nil }, strange},
		{"of one of that name that is gone", func(s *corev1.Service) { s.OwnerReferences[0].UID = "before" }, strange},
		{"owned, but not controlled", func(s *corev1.Service) { s.OwnerReferences[0].Controller = nil }, strange},
	} {
		s := service(newMemcached())
		test.change(s)
		if got := standingOf(s, newMemcached()); got != test.want {
			t.Errorf("%s: got %d, want %d", test.why, got, test.want)
		}
	}
}

func TestDesired(t *testing.T) {
	mc := newMemcached(func(mc *v1.Memcached) {
		mc.Spec.ContainerPort, mc.Spec.MemoryLimitMB, mc.Spec.ExtraArgs = 11311, new(int32(300)), []string{"-c", "2048"}
	})
	set := statefulSet(mc)
	c := set.Spec.Template.Spec.Containers[0]
	if *set.Spec.Replicas != 3 || c.Image != "memcached:1.6.39" || c.Ports[0].ContainerPort != 11311 ||
		!slices.Equal(c.Args, []string{"-p", "11311", "-m", "300", "-c", "2048"}) {
		t.Errorf("does not say what the Memcached says: %+v", c)
	}
	if memory := c.Resources.Limits[corev1.ResourceMemory]; memory.Cmp(resource.MustParse("416Mi")) != 0 {
		t.Errorf("memory is limited to %s", memory.String())
	}
	if service(mc).Spec.Ports[0].Port != 11311 {
		t.Error("the Service has another port")
	}
	if diff := cmp.Diff(statefulSet(newMemcached()).Spec.Selector, set.Spec.Selector); diff != "" {
		t.Errorf("the selector, which cannot change, depends on the spec (-before +after):\n%s", diff)
	}
}

func TestComplete(t *testing.T) {
	limits := func(memory string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}}
	}
	for _, test := range []struct {
		why    string
		spec   v1.MemcachedSpec
		memory int32
	}{
		{"nothing said", v1.MemcachedSpec{}, 64},
		{"said", v1.MemcachedSpec{MemoryLimitMB: new(int32(9)), Resources: limits("1Gi")}, 9},
		{"limited", v1.MemcachedSpec{Resources: limits("1Gi")}, 768},
		{"hardly any", v1.MemcachedSpec{Resources: limits("1k")}, 1},
		{"more than there is", v1.MemcachedSpec{Resources: limits("4Pi")}, maxMemory},
	} {
		before := test.spec.DeepCopy()
		got := complete(test.spec)
		if *got.MemoryLimitMB != test.memory || *got.Size == 0 || got.Image == "" || got.ContainerPort == 0 {
			t.Errorf("%s: got %+v, want %d MiB", test.why, got, test.memory)
		}
		if diff := cmp.Diff(got, complete(got)); diff != "" {
			t.Errorf("%s: it is not complete at once (-first +second):\n%s", test.why, diff)
		}
		if diff := cmp.Diff(*before, test.spec); diff != "" {
			t.Errorf("%s: it changed what it was given (-before +after):\n%s", test.why, diff)
		}
	}
}

func TestStatus(t *testing.T) {
	all := []corev1.Pod{node(0), node(1), node(2)}
	two := []corev1.Pod{node(0), node(1), node(2, unready)}
	recently := func(pod *corev1.Pod) {
		unready(pod)
		pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon.Add(-time.Minute))
	}
	crashed := func(pod *corev1.Pod) {
		unready(pod)
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "memcached", RestartCount: 4, LastTerminationState: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 71}}}}
	}
	for _, test := range []struct {
		why                              string
		outcome                          outcome
		pods                             []corev1.Pod
		available, progressing, degraded bool
		reason                           string
		says                             []string
		again                            time.Duration
	}{
		{"all ready", running(), all, true, false, false, v1.ReasonReady, nil, 0},
		{"just created", running(func(o *outcome) { o.nodes.Status = appsv1.StatefulSetStatus{} }), nil,
			false, true, false, v1.ReasonRollingOut, []string{`"web"`, "3"}, patience},
		{"the StatefulSet's status is of before the change", running(func(o *outcome) { o.nodes.Generation++ }), all,
			true, true, false, v1.ReasonRollingOut, nil, patience},
		{"a node is of before the change", running(func(o *outcome) { o.nodes.Status.UpdatedReplicas = 2 }),
			[]corev1.Pod{node(0), node(1), node(2, recently)}, true, true, false, v1.ReasonRollingOut, nil, 9 * time.Minute},
		{"one is not ready", running(), []corev1.Pod{node(0), node(1), node(2, recently)}, true, true, false, v1.ReasonRollingOut, nil, 9 * time.Minute},
		{"two are not ready", running(), []corev1.Pod{node(0), node(1, unready), node(2, recently)}, false, true, false, v1.ReasonRollingOut, nil, 9 * time.Minute},
		{"one is not ready for long", running(), two, true, false, true, v1.ReasonNoProgress, []string{`"web-2"`, `StatefulSet "web"`}, 0},
		{"one cannot be made for long", running(func(o *outcome) { o.nodes.Status.Replicas = 2 }), all[:2],
			true, false, true, v1.ReasonNoProgress, []string{"fewer than 3"}, 0},
		{"one crashes", running(), []corev1.Pod{node(0), node(1), node(2, crashed)}, true, false, true, v1.ReasonNodeFailing, []string{`"web-2"`, "exit code 71"}, 0},
		{"its image is not there", running(), []corev1.Pod{node(0), node(1), node(2, waiting("ErrImagePull"))},
			true, false, true, v1.ReasonNodeFailing, []string{`"web-2"`, "image"}, 0},
		{"it is only starting", running(), []corev1.Pod{node(0), node(1), node(2, waiting("ContainerCreating"), recently)},
			true, true, false, v1.ReasonRollingOut, nil, 9 * time.Minute},
		{"the Service is a stranger's", running(func(o *outcome) {
			o.service = child{kind: "Service", standing: strange, problem: "because of the test"}
		}), all, false, false, true, v1.ReasonNameTaken, []string{"because of the test"}, 0},
		{"the budget is a stranger's", running(func(o *outcome) { o.budget.standing = strange }), all, true, false, true, v1.ReasonNameTaken, nil, 0},
		{"the nodes are a stranger's", running(func(o *outcome) { o.set, o.nodes = child{standing: strange}, nil }), all, false, false, true, v1.ReasonNameTaken, nil, 0},
		{"rejected", running(func(o *outcome) { o.set, o.nodes = child{standing: rejected}, nil }), nil, false, false, true, v1.ReasonRejected, nil, 0},
		{"a change is rejected", running(func(o *outcome) { o.set.standing, o.service.standing = rejected, rejected }), all,
			true, false, true, v1.ReasonRejected, nil, 0},
		{"the Service is being deleted", running(func(o *outcome) { o.service = child{kind: "Service", standing: ending} }), all, false, true, false, v1.ReasonChildDeleting, []string{"Service"}, 0},
		{"it is being deleted", running(func(o *outcome) { o.deleting = true }), all, false, true, false, v1.ReasonDeleting, nil, 0},
	} {
		status, again := statusOf(newMemcached(), test.outcome, test.pods, noon)
		if status.ObservedGeneration != 7 || status.Selector == "" || again != test.again {
			t.Errorf("%s: got %+v and again after %v, want %v", test.why, status, again, test.again)
		}
		for kind, want := range map[string]bool{
			v1.ConditionAvailable: test.available, v1.ConditionProgressing: test.progressing, v1.ConditionDegraded: test.degraded,
		} {
			c, _ := condition.Get(status.Conditions, kind)
			if (c.Status == metav1.ConditionTrue) != want || c.Reason != test.reason || c.ObservedGeneration != 7 || c.LastTransitionTime.IsZero() {
				t.Errorf("%s: got %+v, want %s=%t for %s", test.why, c, kind, want, test.reason)
			}
			for _, word := range test.says {
				if !strings.Contains(c.Message, word) {
					t.Errorf("%s: %s does not say %q: %s", test.why, kind, word, c.Message)
				}
			}
		}
	}
}

func TestStatusOfNodes(t *testing.T) {
	now := metav1.Now()
	status, _ := statusOf(newMemcached(), running(), []corev1.Pod{
		node(10), node(9, unready), node(0),
		node(1, func(p *corev1.Pod) { p.DeletionTimestamp = &now }),
		node(2, func(p *corev1.Pod) { p.OwnerReferences[0].UID = "before" }),
		node(3, func(p *corev1.Pod) { p.OwnerReferences = nil }),
	}, noon)
	if !slices.Equal(status.Nodes, []string{"web-0", "web-9", "web-10"}) || status.Replicas != 3 || status.ReadyReplicas != 2 {
		t.Errorf("got %+v, want the three that are nodes, by number", status)
	}
}

func TestStatusScaledToZero(t *testing.T) {
	mc := newMemcached(func(mc *v1.Memcached) { mc.Spec.Size = new(int32(0)) })
	o := running(func(o *outcome) { o.nodes.Status = appsv1.StatefulSetStatus{ObservedGeneration: 2} })
	status, _ := statusOf(mc, o, nil, noon)
	if c, _ := condition.Get(status.Conditions, v1.ConditionAvailable); c.Status != metav1.ConditionTrue || c.Reason != v1.ReasonScaledToZero {
		t.Errorf("got %+v", c)
	}
}

// A roll-out of many nodes may take long, as long as something moves.
func TestStatusIsPatientWhileNodesMove(t *testing.T) {
	mc := newMemcached(func(mc *v1.Memcached) {
		mc.Status.Conditions = []metav1.Condition{{Type: v1.ConditionProgressing, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(-2 * time.Hour))}}
	})
	o := running(func(o *outcome) { o.nodes.Status.UpdatedReplicas = 2 })
	for minutes, stuck := range map[int]bool{1: false, 9: false, 11: true} {
		replaced := node(2, func(p *corev1.Pod) {
			p.CreationTimestamp = metav1.NewTime(noon.Add(-time.Duration(minutes) * time.Minute))
		})
		status, _ := statusOf(mc, o, []corev1.Pod{node(0), node(1), replaced}, noon)
		if condition.IsTrue(status.Conditions, v1.ConditionDegraded) != stuck {
			t.Errorf("%d minutes after a node was replaced: %+v", minutes, status.Conditions)
		}
	}
}

func TestStatusThatDoesNotChangeStaysTheSame(t *testing.T) {
	mc := newMemcached()
	mc.Status, _ = statusOf(mc, running(), nil, noon)
	later, _ := statusOf(mc, running(), nil, noon.Add(time.Minute))
	if diff := cmp.Diff(mc.Status, later); diff != "" {
		t.Errorf("a reconcile that finds nothing new writes (-before +after):\n%s", diff)
	}
}

func TestValidate(t *testing.T) {
	with := func(change func(*v1.Memcached)) *v1.Memcached { return newMemcached(change) }
	for _, test := range []struct {
		why, field string // the field that is named; empty: it is allowed
		mc         *v1.Memcached
	}{
		{"all is well", "", newMemcached()},
		{"too many", "spec.size", with(func(mc *v1.Memcached) { mc.Spec.Size = new(int32(101)) })},
		{"fewer than none", "spec.size", with(func(mc *v1.Memcached) { mc.Spec.Size = new(int32(-1)) })},
		{"no port", "spec.containerPort", with(func(mc *v1.Memcached) { mc.Spec.ContainerPort = 65536 })},
		{"no memory", "spec.memoryLimitMB", with(func(mc *v1.Memcached) { mc.Spec.MemoryLimitMB = new(int32(0)) })},
		{"two words", "spec.image", with(func(mc *v1.Memcached) { mc.Spec.Image = "memcached -d" })},
		{"more memory than it is given", "spec.memoryLimitMB", with(func(mc *v1.Memcached) {
			mc.Spec.MemoryLimitMB = new(int32(1024))
			mc.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
		})},
		{"claims", "spec.resources.claims", with(func(mc *v1.Memcached) { mc.Spec.Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}} })},
		{"a port by argument", "spec.extraArgs[1]", with(func(mc *v1.Memcached) { mc.Spec.ExtraArgs = []string{"-v", "-p9"} })},
		{"a port by long argument", "spec.extraArgs[0]", with(func(mc *v1.Memcached) { mc.Spec.ExtraArgs = []string{"--port=9"} })},
		{"an argument that only looks so", "", with(func(mc *v1.Memcached) {
			mc.Spec.ExtraArgs = []string{"-c", "9", "-o", "modern", "--max-reqs-per-event=20"}
		})},
		{"an empty argument", "spec.extraArgs[0]", with(func(mc *v1.Memcached) { mc.Spec.ExtraArgs = []string{""} })},
		{"a name with a dot", "metadata.name", with(func(mc *v1.Memcached) { mc.Name = "a.b" })},
		{"a name that is too long", "metadata.name", with(func(mc *v1.Memcached) { mc.Name = strings.Repeat("a", 53) })},
		{"a wrong one that is going", "", with(func(mc *v1.Memcached) { mc.Spec.Size, mc.DeletionTimestamp = new(int32(101)), new(metav1.Now()) })},
	} {
		_, err := validate(t.Context(), webhook.Request[*v1.Memcached]{Object: test.mc, Old: newMemcached(func(mc *v1.Memcached) { mc.Spec.Image = "before" })})
		if (err != nil) != (test.field != "") || err != nil && !strings.HasPrefix(err.Error(), test.field+":") {
			t.Errorf("%s: got %v, want an error about %q", test.why, err, test.field)
		}
	}
}

// What was let in before there were webhooks can still be labelled.
func TestValidateLeavesAloneWhatDoesNotChange(t *testing.T) {
	wrong := newMemcached(func(mc *v1.Memcached) { mc.Spec.Size = new(int32(101)) })
	labelled := wrong.DeepCopy()
	labelled.Labels = map[string]string{"a": "b"}
	if _, err := validate(t.Context(), webhook.Request[*v1.Memcached]{Object: labelled, Old: wrong}); err != nil {
		t.Error(err)
	}
}

func TestWarnings(t *testing.T) {
	image := func(image string) *v1.Memcached {
		return newMemcached(func(mc *v1.Memcached) { mc.Spec.Image = image })
	}
	for _, test := range []struct {
		why      string
		mc, old  *v1.Memcached
		warnings int
	}{
		{"none", newMemcached(), nil, 0},
		{"no tag", image("registry:5000/memcached"), nil, 1},
		{"latest", image("memcached:latest"), nil, 1},
		{"a digest", image("memcached@sha256:0123"), nil, 0},
		{"scaled", newMemcached(func(mc *v1.Memcached) { mc.Spec.Size = new(int32(5)) }), newMemcached(), 0},
		{"another image", image("memcached:1.6.40"), newMemcached(), 1},
		{"what was the default anyhow", newMemcached(func(mc *v1.Memcached) { mc.Spec.MemoryLimitMB = new(int32(64)) }), newMemcached(), 0},
	} {
		if got := warningsAbout(test.mc, test.old); len(got) != test.warnings {
			t.Errorf("%s: got %q", test.why, got)
		}
	}
}

func TestWebhookManifests(t *testing.T) {
	for url, want := range map[string][]string{
		"":                      {"kind: Service\n", "path: /convert\n", "path: /mutate-cache-setpoint-dev-v1-memcached\n"},
		"https://127.0.0.1:444": {"url: https://127.0.0.1:444/convert\n", "url: https://127.0.0.1:444/validate-cache-setpoint-dev-v1-memcached\n"},
	} {
		text, err := WebhookManifests(url, []byte("CA"))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range append(want, "strategy: Webhook\n") {
			if !strings.Contains(text, line) {
				t.Errorf("to %q: no %q in\n%s", url, line, text)
			}
		}
		if n := strings.Count(text, "caBundle: Q0E=\n"); n != 3 {
			t.Errorf("to %q: %d of 3 trust the CA:\n%s", url, n, text)
		}
		if strings.Contains(text, "served: false") || url != "" && strings.Contains(text, "service:") {
			t.Errorf("to %q: not all is served by it:\n%s", url, text)
		}
	}
}
