package reload

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
)

func TestBudgetIsGivenInTheOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kind := workloadKinds()[0]
		b := newBudget(1, time.Minute)
		var woken []string
		ctx := t.Context()
		go b.wakes(kind)(ctx, func(r setpoint.Request) { woken = append(woken, r.Name) })
		synctest.Wait()
		request := func(name string) setpoint.Request { return setpoint.Request{Namespace: "default", Name: name} }
		take := func(name string) bool {
			free, err := b.take(ctx, kind, request(name))
			if err != nil {
				t.Fatal(err)
			}
			return free
		}
		for range 2 {
			if !take("a") {
				t.Fatal("the first one, again and again, must not wait")
			}
		}
		if take("b") || take("c") || take("b") {
			t.Fatal("two roll at once")
		}
		b.finished(kind, request("b")) // it did not roll
		b.finished(kind, request("a"))
		b.finished(kind, request("a"))
		if strings.Join(woken, " ") != "b" {
			t.Fatalf("woken: %v, want b alone", woken)
		}
		if !take("b") || take("c") {
			t.Fatal("b, and only b, may roll now")
		}
		time.Sleep(time.Minute)
		if !take("c") {
			t.Error("what takes longer than the timeout still counts")
		}
		if b.length() != 0 {
			t.Errorf("%d wait", b.length())
		}
	})
}

func TestBudgetPassesOverThoseThatGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kind := workloadKinds()[0]
		r := &reconciler{operator: &operator{budget: newBudget(1, time.Minute)}, kind: kind, notes: newNotebook()}
		var woken []string
		go r.budget.wakes(kind)(t.Context(), func(r setpoint.Request) { woken = append(woken, r.Name) })
		synctest.Wait()
		for _, name := range []string{"a", "b", "c"} {
			if _, err := r.budget.take(t.Context(), kind, setpoint.Request{Name: name}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := r.keep(t.Context(), &pass{req: setpoint.Request{Name: "b"}, policy: &policy{}}); err != nil {
			t.Fatal(err)
		}
		if n := r.budget.length(); n != 1 {
			t.Errorf("%d wait, want c alone", n)
		}
		r.budget.finished(kind, setpoint.Request{Name: "a"})
		if strings.Join(woken, " ") != "c" {
			t.Errorf("woken: %v, want c", woken)
		}
	})
}

func TestSettled(t *testing.T) {
	kinds := map[string]*workloadKind{}
	for _, k := range workloadKinds() {
		kinds[k.gvk.Kind] = k
	}
	deployment := func(change func(*appsv1.Deployment)) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Spec: appsv1.DeploymentSpec{Replicas: new(int32(3))},
			Status: appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3}}
		change(d)
		return d
	}
	set := func(change func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
		s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Spec: appsv1.StatefulSetSpec{Replicas: new(int32(3))},
			Status: appsv1.StatefulSetStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3}}
		change(s)
		return s
	}
	daemon := func(change func(*appsv1.DaemonSet)) *appsv1.DaemonSet {
		d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Generation: 2},
			Status: appsv1.DaemonSetStatus{ObservedGeneration: 2, DesiredNumberScheduled: 3, UpdatedNumberScheduled: 3, NumberAvailable: 3}}
		change(d)
		return d
	}
	argo := func(phase, observed string, paused bool) *unstructured.Unstructured {
		u := emptyRollout().(*unstructured.Unstructured)
		u.SetGeneration(2)
		u.Object["spec"] = map[string]any{"paused": paused}
		u.Object["status"] = map[string]any{"phase": phase, "observedGeneration": observed}
		return u
	}
	for _, test := range []struct {
		why  string
		obj  client.Object
		kind string
		want bool
	}{
		{"a Deployment", deployment(func(*appsv1.Deployment) {}), "Deployment", true},
		{"unseen", deployment(func(d *appsv1.Deployment) { d.Generation++ }), "Deployment", false},
		{"old Pods", deployment(func(d *appsv1.Deployment) { d.Status.Replicas = 4 }), "Deployment", false},
		{"not available", deployment(func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 2 }), "Deployment", false},
		{"paused", deployment(func(d *appsv1.Deployment) { d.Generation++; d.Spec.Paused = true }), "Deployment", true},
		{"a StatefulSet", set(func(*appsv1.StatefulSet) {}), "StatefulSet", true},
		{"half way", set(func(s *appsv1.StatefulSet) { s.Status.UpdatedReplicas = 1 }), "StatefulSet", false},
		{"a partition", set(func(s *appsv1.StatefulSet) {
			s.Status.UpdatedReplicas = 1
			s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: new(int32(2))}
		}), "StatefulSet", true},
		{"by hand", set(func(s *appsv1.StatefulSet) {
			s.Status.UpdatedReplicas = 0
			s.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
		}), "StatefulSet", true},
		{"a DaemonSet", daemon(func(*appsv1.DaemonSet) {}), "DaemonSet", true},
		{"half way", daemon(func(d *appsv1.DaemonSet) { d.Status.UpdatedNumberScheduled = 1 }), "DaemonSet", false},
		{"by hand", daemon(func(d *appsv1.DaemonSet) {
			d.Status.UpdatedNumberScheduled = 0
			d.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType
		}), "DaemonSet", true},
		{"a Rollout", argo("Healthy", "2", false), "Rollout", true},
		{"unseen", argo("Healthy", "1", false), "Rollout", false},
		{"progressing", argo("Progressing", "2", false), "Rollout", false},
		{"paused", argo("Progressing", "2", true), "Rollout", true},
	} {
		if got := !kinds[test.kind].rolls(test.obj); got != test.want {
			t.Errorf("%s, %s: settled is %t", test.kind, test.why, got)
		}
		if effect(test.obj) == "" {
			t.Errorf("%s, %s: no words for the effect", test.kind, test.why)
		}
	}
	for _, kind := range []string{"Job", "CronJob"} {
		if kinds[kind].rolls(kinds[kind].empty()) {
			t.Errorf("a %s rolls", kind)
		}
	}
}
