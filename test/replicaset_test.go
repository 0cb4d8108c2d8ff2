package test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/lease"
	"github.com/setpoint-dev/setpoint/operators/replicaset"
	"github.com/setpoint-dev/setpoint/owner"
	"github.com/setpoint-dev/setpoint/plane"
	"github.com/setpoint-dev/setpoint/plane/planetest"
)

// withoutReplicaSets is a plane in which nobody keeps the Pods of ReplicaSets.
func withoutReplicaSets() plane.Config { return plane.Config{Controllers: []string{"-replicaset"}} }

// keeping is a cluster in which ours is the only controller of ReplicaSets, and a user of it.
type keeping struct {
	testing.TB
	planetest.Cluster
	user *client.Client
	sent *requestLog // what the operator asked for
}

func keepingIn(t testing.TB, p planetest.Cluster) *keeping {
	t.Helper()
	user, err := client.New(client.Config{REST: p.RESTConfig(), FieldOwner: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return &keeping{t, p, user, &requestLog{}}
}

// withReplicaSets runs a test on a plane of its own, in virtual time.
func withReplicaSets(t *testing.T, test func(k *keeping)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := planetest.Start(t, withoutReplicaSets())
		planetest.Apply(t, p, "../operators/replicaset/manifests/rbac.yaml")
		test(keepingIn(t, p))
	})
}

// start runs a replica of the operator, whose requests pass the wrappers and are noted behind them.
func (k *keeping) start(identity string, wraps ...func(http.RoundTripper) http.RoundTripper) (stop func()) {
	k.Helper()
	return k.startAs(k.RESTConfig(), identity, wraps...)
}

func (k *keeping) startAs(config *rest.Config, identity string, wraps ...func(http.RoundTripper) http.RoundTripper) (stop func()) {
	k.Helper()
	config.Wrap(k.sent.wrap)
	for _, wrap := range wraps {
		config.Wrap(wrap)
	}
	m, err := setpoint.NewManager(setpoint.Config{
		REST: config, FieldOwner: "setpoint-replicaset", Kinds: replicaset.Kinds(), Seed: 1,
		LeaderElection: &lease.Config{Namespace: "setpoint-system", Name: "setpoint-replicaset", Identity: identity},
	})
	if err != nil {
		k.Fatal(err)
	}
	if err := replicaset.Setup(m); err != nil {
		k.Fatal(err)
	}
	return begin(k, m)
}

func (k *keeping) awaitLeader(identity string) {
	k.Helper()
	awaitLeader(k, k, "setpoint-replicaset", identity)
}

func (k *keeping) create(obj client.Object) {
	k.Helper()
	if err := k.user.Create(k.Context(), obj); err != nil {
		k.Fatal(err)
	}
}

func (k *keeping) patch(obj client.Object, text string) {
	k.Helper()
	copied := obj.DeepCopyObject().(client.Object)
	if err := k.user.Patch(k.Context(), copied, client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
		k.Fatal(err)
	}
}

func (k *keeping) scale(set *appsv1.ReplicaSet, replicas int32) {
	k.Helper()
	k.patch(set, fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
}

// full waits until a ReplicaSet is asked for so many Pods, and says that it has them and that they are ready.
func (k *keeping) full(set *appsv1.ReplicaSet, replicas int32) *appsv1.ReplicaSet {
	k.Helper()
	return k.fullWithin(time.Hour, set, replicas)
}

func (k *keeping) fullWithin(limit time.Duration, set *appsv1.ReplicaSet, replicas int32) *appsv1.ReplicaSet {
	k.Helper()
	return planetest.WaitFor(k, k, limit, set, func(set *appsv1.ReplicaSet) bool {
		s := set.Status
		return *set.Spec.Replicas == replicas && s.ObservedGeneration == set.Generation && s.Replicas == replicas &&
			s.FullyLabeledReplicas == replicas && s.ReadyReplicas == replicas && s.AvailableReplicas == replicas && len(s.Conditions) == 0
	})
}

// pods waits until the Pods of a ReplicaSet that are not being deleted, by name, hold.
func (k *keeping) pods(set *appsv1.ReplicaSet, holds func(map[string]*corev1.Pod) bool) map[string]*corev1.Pod {
	k.Helper()
	all, err := kubernetes.NewForConfig(k.RESTConfig())
	if err != nil {
		k.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(k.Context(), planetest.Timeout)
	defer cancel()
	changes, err := all.CoreV1().Pods(set.Namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		k.Fatal(err)
	}
	defer changes.Stop()
	found := map[string]*corev1.Pod{}
	for change := range changes.ResultChan() {
		pod, is := change.Object.(*corev1.Pod)
		if !is {
			k.Fatalf("the watch of Pods says %v", change.Object)
		}
		if change.Type == watch.Deleted || pod.DeletionTimestamp != nil || !owner.IsControlledBy(pod, set) {
			delete(found, pod.Name)
		} else {
			found[pod.Name] = pod
		}
		if holds(found) {
			return found
		}
	}
	k.Fatalf("the Pods of %s did not become what they should be in %v: there are %d", set.Name, planetest.Timeout, len(found))
	return nil
}

// noPods fails the test if there is any Pod.
func (k *keeping) noPods() {
	k.Helper()
	var pods corev1.PodList
	if err := k.user.List(k.Context(), &pods, client.InNamespace("default")); err != nil || len(pods.Items) > 0 {
		k.Errorf("%d Pods are left: %v", len(pods.Items), err)
	}
}

// firstOf returns the first of the Pods by name.
func firstOf(pods map[string]*corev1.Pod) *corev1.Pod {
	return pods[slices.Min(slices.Collect(maps.Keys(pods)))]
}

// count returns how many of the lines begin like that.
func count(lines []string, prefix string) int {
	n := 0
	for _, line := range lines {
		if strings.HasPrefix(line, prefix) {
			n++
		}
	}
	return n
}

// How requests begin that create and delete Pods, and that write the status of ReplicaSets.
const (
	createsPod   = "POST /api/v1/namespaces/default/pods"
	deletesPod   = "DELETE /api/v1/namespaces/default/pods/"
	writesStatus = "PATCH /apis/apps/v1/namespaces/default/replicasets/"
)

func newReplicaSet(name string, replicas int32) *appsv1.ReplicaSet {
	app := map[string]string{"app": name}
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: app},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: app},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx:1"}}},
			},
		},
	}
}

// TestReplicaSet is the life of one, with an operator of two replicas that come and go.
func TestReplicaSet(t *testing.T) {
	withReplicaSets(t, func(k *keeping) {
		var way switched
		k.start("first", way.wrap)
		k.awaitLeader("first")
		stop := k.start("second")

		// Create and scale it.
		web := newReplicaSet("web", 3)
		k.create(web)
		k.full(web, 3)
		k.scale(web, 1)
		k.full(web, 1)
		k.scale(web, 3)
		k.full(web, 3)

		// A Pod that somebody deletes is replaced.
		pod := firstOf(k.pods(web, func(pods map[string]*corev1.Pod) bool { return len(pods) == 3 }))
		if err := k.user.Delete(k.Context(), pod); err != nil {
			k.Fatal(err)
		}
		pod = firstOf(k.pods(web, func(pods map[string]*corev1.Pod) bool { return len(pods) == 3 && pods[pod.Name] == nil }))

		// One that is labelled differently is let go, and replaced. It is taken back when its label is, and another one goes,
		// since it is dear.
		k.patch(pod, `{"metadata":{"labels":{"app":"other"},"annotations":{"controller.kubernetes.io/pod-deletion-cost":"100"}}}`)
		planetest.Wait(k, k, pod, func(p *corev1.Pod) bool { return owner.ControllerOf(p) == nil })
		k.pods(web, func(pods map[string]*corev1.Pod) bool { return len(pods) == 3 && pods[pod.Name] == nil })
		k.full(web, 3)
		k.patch(pod, `{"metadata":{"labels":{"app":"web"}}}`)
		k.pods(web, func(pods map[string]*corev1.Pod) bool { return len(pods) == 3 && pods[pod.Name] != nil })

		// Cut the leader off: the other one goes on.
		way.cut.Store(true)
		k.scale(web, 6)
		k.full(web, 6)
		k.awaitLeader("second")

		// Restart the operator, in the middle of a change.
		k.scale(web, 40)
		k.pods(web, func(pods map[string]*corev1.Pod) bool { return len(pods) >= 9 })
		stop()
		k.start("third")
		k.full(web, 40)

		// Delete it: nothing is left.
		if err := k.user.Delete(k.Context(), web, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
			k.Fatal(err)
		}
		planetest.WaitGone(k, k, web)
		k.noPods()
	})
}

// Pods that a deleted ReplicaSet left behind belong to the next one that selects them.
func TestReplicaSetAdopts(t *testing.T) {
	withReplicaSets(t, func(k *keeping) {
		k.start("only")
		web := newReplicaSet("web", 3)
		k.create(web)
		k.full(web, 3)
		if err := k.user.Delete(k.Context(), web, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
			k.Fatal(err)
		}
		planetest.WaitGone(k, k, web)
		next := newReplicaSet("next", 2)
		next.Spec.Selector, next.Spec.Template.Labels = web.Spec.Selector, web.Spec.Template.Labels
		k.create(next)
		k.full(next, 2)
		lines := k.sent.take()
		if created, deleted := count(lines, createsPod), count(lines, deletesPod); created != 3 || deleted != 1 {
			k.Errorf("%d Pods were created and %d deleted, want 3 and 1", created, deleted)
		}
	})
}

// A ReplicaSet that is gone, which the operator does not know yet, gets no Pods any more: those that it left behind are
// released already, and look as if they were to be adopted.
func TestReplicaSetGoneGetsNoPods(t *testing.T) {
	withReplicaSets(t, func(k *keeping) {
		k.start("only", func(next http.RoundTripper) http.RoundTripper {
			late := watchesLate(3 * time.Second)(next)
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				if r.URL.Path == "/apis/apps/v1/replicasets" {
					return late.RoundTrip(r)
				}
				return next.RoundTrip(r)
			})
		})
		web := newReplicaSet("web", 3)
		k.create(web)
		k.full(web, 3)
		time.Sleep(time.Minute) // until the operator has seen its own writes
		if err := k.user.Delete(k.Context(), web, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
			k.Fatal(err)
		}
		time.Sleep(time.Minute)
		if created := count(k.sent.take(), createsPod); created != 3 {
			k.Errorf("%d Pods were created, want 3", created)
		}
	})
}

// TestReplicaSetUnderDeployment: a Deployment rolls as with Kubernetes' own controller.
func TestReplicaSetUnderDeployment(t *testing.T) {
	withReplicaSets(t, func(k *keeping) {
		k.start("only")
		template := newReplicaSet("web", 3).Spec
		web := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Spec:       appsv1.DeploymentSpec{Replicas: new(int32(3)), Selector: template.Selector, Template: template.Template},
		}
		rolled := func(d *appsv1.Deployment) bool {
			s := d.Status
			return s.ObservedGeneration == d.Generation && s.Replicas == 3 && s.UpdatedReplicas == 3 && s.AvailableReplicas == 3
		}
		k.create(web)
		planetest.Wait(k, k, web, rolled)
		k.patch(web, `{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"nginx:2"}]}}}}`)
		planetest.Wait(k, k, web, func(d *appsv1.Deployment) bool {
			return d.Spec.Template.Spec.Containers[0].Image == "nginx:2" && rolled(d)
		})
		if err := k.user.Delete(k.Context(), web, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
			k.Fatal(err)
		}
		planetest.WaitGone(k, k, web)
		k.noPods()
	})
}

// TestReplicaSetHasNoSurplus: not one Pod too many is created or deleted, however far the operator's watches are behind. Of
// the lags one is within the time for which reads wait for own writes, and one beyond.
func TestReplicaSetHasNoSurplus(t *testing.T) {
	for _, lag := range []time.Duration{0, time.Second, 3 * time.Second} {
		t.Run(lag.String(), func(t *testing.T) {
			withReplicaSets(t, func(k *keeping) {
				k.start("only", watchesLate(lag))
				web := newReplicaSet("web", 20)
				k.create(web)
				k.full(web, 20)
				k.scale(web, 50)
				k.full(web, 50)
				k.scale(web, 10)
				k.full(web, 10)
				time.Sleep(time.Minute)
				lines := k.sent.take()
				if created, deleted := count(lines, createsPod), count(lines, deletesPod); created != 50 || deleted != 40 {
					k.Errorf("%d Pods were created and %d deleted, want 50 and 40", created, deleted)
				}
			})
		})
	}
}

// losesAnswers lets each third answer to a request that begins like that get lost on its way back.
func losesAnswers(prefix string) func(http.RoundTripper) http.RoundTripper {
	var asked atomic.Int32
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(r)
			if err == nil && strings.HasPrefix(r.Method+" "+r.URL.Path, prefix) && asked.Add(1)%3 == 0 {
				response.Body.Close()
				return nil, errors.New("the test has lost the answer")
			}
			return response, err
		})
	}
}

// TestReplicaSetLostAnswers: a Pod that was created without the operator being told counts.
func TestReplicaSetLostAnswers(t *testing.T) {
	withReplicaSets(t, func(k *keeping) {
		k.start("only", losesAnswers(createsPod), watchesLate(time.Second))
		web := newReplicaSet("web", 20)
		k.create(web)
		k.full(web, 20)
		if created := count(k.sent.take(), createsPod); created != 20 {
			k.Errorf("%d Pods were created, want 20", created)
		}
	})
}

// TestReplicaSetQuota: what a quota refuses is asked for a handful of times, told once, and made when the quota allows it.
func TestReplicaSetQuota(t *testing.T) {
	withReplicaSets(t, func(k *keeping) {
		quota := k.limitPods("3")
		k.start("only")
		web := newReplicaSet("web", 50)
		k.create(web)
		web = planetest.Wait(k, k, web, func(set *appsv1.ReplicaSet) bool {
			return set.Status.ReadyReplicas == 3 && len(set.Status.Conditions) == 1
		})
		c := web.Status.Conditions[0]
		if c.Type != appsv1.ReplicaSetReplicaFailure || c.Status != corev1.ConditionTrue || c.Reason != "FailedCreate" ||
			!strings.Contains(c.Message, "exceeded quota") {
			k.Errorf("the condition is %+v", c)
		}
		awaitEvent(k, k, func(e *eventsv1.Event) bool {
			return e.Regarding.UID == web.UID && e.Reason == "FailedCreate" && e.Series != nil
		})
		// An hour of it costs the first 1 + 2 + 4, one when a Pod of these three changes, and one at each retry.
		time.Sleep(time.Hour)
		lines := k.sent.take()
		if created := count(lines, createsPod); created < 7 || created > 60 {
			k.Errorf("%d Pods were asked for, want a handful", created)
		}
		if written := count(lines, writesStatus); written > 10 {
			k.Errorf("the status was written %d times", written)
		}
		k.patch(quota, `{"spec":{"hard":{"pods":"60"}}}`)
		k.full(web, 50)
	})
}

// limitPods makes a quota, and waits until it is in force.
func (k *keeping) limitPods(most string) *corev1.ResourceQuota {
	k.Helper()
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "few"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse(most)}},
	}
	k.create(quota)
	return planetest.Wait(k, k, quota, func(q *corev1.ResourceQuota) bool { return len(q.Status.Hard) > 0 })
}

// TestReplicaSetPatience: a Pod is available once it has been ready for minReadySeconds, though nothing happens then.
func TestReplicaSetPatience(t *testing.T) {
	withReplicaSets(t, func(k *keeping) {
		k.start("only")
		web := newReplicaSet("web", 2)
		web.Spec.MinReadySeconds = 300
		k.create(web)
		early := planetest.Wait(k, k, web, func(set *appsv1.ReplicaSet) bool { return set.Status.ReadyReplicas == 2 })
		begin := time.Now()
		k.full(web, 2)
		if took := time.Since(begin); early.Status.AvailableReplicas != 0 || took < 290*time.Second || took > 310*time.Second {
			k.Errorf("%d were available at first, and all after %v", early.Status.AvailableReplicas, took)
		}
	})
}

// TestIdleReplicaSetAsksForNothing: at rest there are the lease and nothing else.
func TestIdleReplicaSetAsksForNothing(t *testing.T) {
	withReplicaSets(t, func(k *keeping) {
		k.start("only")
		web := newReplicaSet("web", 5)
		k.create(web)
		k.full(web, 5)
		time.Sleep(time.Minute)
		if busy := k.sent.take(); count(busy, createsPod) != 5 {
			k.Fatalf("the log does not show how the Pods were made, so it proves nothing:\n%s", strings.Join(busy, "\n"))
		}
		k.patch(web, `{"metadata":{"labels":{"team":"web"}}}`)
		time.Sleep(10 * time.Minute)
		idle := k.sent.take()
		for _, line := range idle {
			if !strings.Contains(line, "/leases/") && !strings.HasPrefix(line, "WATCH ") {
				k.Errorf("an idle operator asked for %s", line)
			}
		}
		if len(idle) == 0 {
			k.Error("the lease was not renewed: the operator does not run")
		}
	})
}

// TestReplicaSetRole: the operator can do all of its work with the rights of its manifest, and needs each of them.
func TestReplicaSetRole(t *testing.T) {
	// This right is for servers that mind who blocks a deletion, as planes do not.
	blocking := "- apiGroups: [apps]\n  resources: [replicasets/finalizers]\n  verbs: [update]\n"
	rbac := strings.Replace(replicaset.RBAC(), blocking, "", 1)
	if rbac == replicaset.RBAC() {
		t.Fatal("the manifest has no rule about replicasets/finalizers any more: neither should this test")
	}
	eachRuleNeeded(t, withoutReplicaSets(), rbac, func(t testing.TB, p planetest.Cluster, operator *rest.Config) {
		k := keepingIn(t, p)
		k.limitPods("4")
		k.startAs(operator, "only", losesAnswers(deletesPod), watchesLate(3*time.Second))
		web := newReplicaSet("web", 4)
		k.create(web)
		k.fullWithin(planetest.Timeout, web, 4)
		pod := firstOf(k.pods(web, func(pods map[string]*corev1.Pod) bool { return len(pods) == 4 }))
		k.patch(pod, `{"metadata":{"labels":{"app":"other"}}}`)
		planetest.Wait(k, k, pod, func(p *corev1.Pod) bool { return owner.ControllerOf(p) == nil })
		// The quota lets nobody replace it, which is told in a series.
		awaitEvent(k, k, func(e *eventsv1.Event) bool {
			return e.Regarding.Name == "web" && e.Reason == "FailedCreate" && e.Series != nil
		})
		k.patch(pod, `{"metadata":{"labels":{"app":"web"}}}`)
		planetest.Wait(k, k, pod, func(p *corev1.Pod) bool { return owner.ControllerOf(p) != nil })
		k.fullWithin(planetest.Timeout, web, 4)
		k.scale(web, 0)
		k.fullWithin(planetest.Timeout, web, 0)
	})
}
