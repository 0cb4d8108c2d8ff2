package test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	eventsclient "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/condition"
	"github.com/setpoint-dev/setpoint/lease"
	"github.com/setpoint-dev/setpoint/operators/memcached"
	cachev1 "github.com/setpoint-dev/setpoint/operators/memcached/v1"
	"github.com/setpoint-dev/setpoint/plane"
	"github.com/setpoint-dev/setpoint/plane/planetest"
)

func memcachedScheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), memcached.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return scheme
}

// newMemcachedManager returns a manager that runs the operator, and leads by the identity unless that is empty.
func newMemcachedManager(t testing.TB, config *rest.Config, identity string) *setpoint.Manager {
	t.Helper()
	setup := setpoint.Config{REST: config, Scheme: memcachedScheme(t), FieldOwner: "setpoint-memcached", Kinds: memcached.Kinds(), Seed: 1}
	if identity != "" {
		setup.LeaderElection = &lease.Config{Namespace: "setpoint-system", Name: "setpoint-memcached", Identity: identity}
	}
	m, err := setpoint.NewManager(setup)
	if err != nil {
		t.Fatal(err)
	}
	if err := memcached.Setup(m); err != nil {
		t.Fatal(err)
	}
	return m
}

// installMemcached applies the kind, and returns a client of the test's own.
func installMemcached(t testing.TB, p planetest.Cluster) *client.Client {
	t.Helper()
	planetest.Apply(t, p, "../operators/memcached/manifests/cache.setpoint.dev_memcacheds.yaml")
	user, err := client.New(client.Config{REST: p.RESTConfig(), Scheme: memcachedScheme(t), FieldOwner: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return user
}

func newMemcached(name string, size int32) *cachev1.Memcached {
	return &cachev1.Memcached{
		TypeMeta:   metav1.TypeMeta{APIVersion: cachev1.GroupVersion.String(), Kind: "Memcached"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       cachev1.MemcachedSpec{Size: &size},
	}
}

// settled reports whether a Memcached is, and says that it is, what its present spec asks for.
func settled(mc *cachev1.Memcached) bool {
	c, _ := condition.Get(mc.Status.Conditions, cachev1.ConditionProgressing)
	return mc.Status.ObservedGeneration == mc.Generation && mc.Status.ReadyReplicas == *mc.Spec.Size &&
		condition.IsTrueFor(mc.Status.Conditions, cachev1.ConditionAvailable, mc.Generation) && c.Status == metav1.ConditionFalse
}

// childrenOf returns the objects that a Memcached leads to.
func childrenOf(mc *cachev1.Memcached) (*appsv1.StatefulSet, *corev1.Service, *policyv1.PodDisruptionBudget) {
	meta := metav1.ObjectMeta{Namespace: mc.Namespace, Name: mc.Name}
	return &appsv1.StatefulSet{ObjectMeta: meta}, &corev1.Service{ObjectMeta: meta}, &policyv1.PodDisruptionBudget{ObjectMeta: meta}
}

// switched is a way to the API server that can be cut.
type switched struct{ cut atomic.Bool }

func (s *switched) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if s.cut.Load() {
			return nil, errors.New("the test has cut the way to the API server")
		}
		return next.RoundTrip(r)
	})
}

// TestMemcached is the life of one, with an operator of two replicas that come and go. Its minutes are virtual ones.
func TestMemcached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := planetest.New(t)
		user := installMemcached(t, p)
		planetest.Apply(t, p, "../operators/memcached/manifests/rbac.yaml")
		ctx := t.Context()
		var way switched
		config := p.RESTConfig()
		config.Wrap(way.wrap)
		begin(t, newMemcachedManager(t, config, "first"))
		awaitLeader(t, p, "setpoint-memcached", "first")
		stop := begin(t, newMemcachedManager(t, p.RESTConfig(), "second"))

		// Create it: three nodes with names of their own, a headless Service and a budget.
		mc := newMemcached("sessions", 3)
		if err := user.Create(ctx, mc); err != nil {
			t.Fatal(err)
		}
		mc = planetest.Wait(t, p, mc, settled)
		set, service, budget := childrenOf(mc)
		if !slices.Equal(mc.Status.Nodes, []string{"sessions-0", "sessions-1", "sessions-2"}) || mc.Status.Replicas != 3 {
			t.Errorf("nodes are %v of %d", mc.Status.Nodes, mc.Status.Replicas)
		}
		if s := planetest.Wait(t, p, service, exists); s.Spec.ClusterIP != corev1.ClusterIPNone || s.Spec.Ports[0].Port != 11211 {
			t.Errorf("the Service is %+v", s.Spec)
		}
		if b := planetest.Wait(t, p, budget, exists); b.Spec.MaxUnavailable.IntValue() != 1 {
			t.Errorf("the budget is %+v", b.Spec)
		}

		// Change it, by its spec and by its scale.
		mergePatch(t, user, mc.DeepCopy(), `{"spec":{"image":"memcached:1.6.39","containerPort":11311,"memoryLimitMB":128}}`)
		planetest.Wait(t, p, mc, settled)
		child := planetest.Wait(t, p, set, func(s *appsv1.StatefulSet) bool { return s.Status.UpdatedReplicas == 3 })
		if c := child.Spec.Template.Spec.Containers[0]; c.Image != "memcached:1.6.39" || len(c.Ports) != 1 || c.Ports[0].ContainerPort != 11311 || !slices.Contains(c.Args, "128") {
			t.Errorf("the container is %+v", c)
		}
		scale(t, user, mc, 2)
		mc = planetest.Wait(t, p, mc, func(mc *cachev1.Memcached) bool { return *mc.Spec.Size == 2 && settled(mc) })
		if !slices.Equal(mc.Status.Nodes, []string{"sessions-0", "sessions-1"}) {
			t.Errorf("nodes are %v", mc.Status.Nodes)
		}

		// Drift heals, and what the operator says nothing about stays.
		mergePatch(t, user, set.DeepCopy(), `{"metadata":{"labels":{"team":"web"}},"spec":{"replicas":0,"template":{"spec":{"terminationGracePeriodSeconds":7}}}}`)
		for _, obj := range []client.Object{service, budget} {
			before := planetest.Wait(t, p, obj, exists)
			if err := user.Delete(ctx, before); err != nil {
				t.Fatal(err)
			}
			planetest.Wait(t, p, obj, func(o client.Object) bool { return o.GetUID() != before.GetUID() })
		}
		child = planetest.Wait(t, p, set, func(s *appsv1.StatefulSet) bool { return *s.Spec.Replicas == 2 && s.Status.ReadyReplicas == 2 })
		if child.Labels["team"] != "web" || *child.Spec.Template.Spec.TerminationGracePeriodSeconds != 7 {
			t.Errorf("what somebody else said is gone: %v", child.Labels)
		}

		// Cut the leader off: the other one goes on.
		way.cut.Store(true)
		scale(t, user, mc, 4)
		mc = planetest.Wait(t, p, mc, func(mc *cachev1.Memcached) bool { return *mc.Spec.Size == 4 && settled(mc) })
		awaitLeader(t, p, "setpoint-memcached", "second")

		// Restart the operator, in the middle of a change.
		mergePatch(t, user, mc.DeepCopy(), `{"spec":{"size":5,"image":"memcached:1.6.40"}}`)
		planetest.Wait(t, p, set, func(s *appsv1.StatefulSet) bool { return *s.Spec.Replicas == 5 })
		stop()
		begin(t, newMemcachedManager(t, p.RESTConfig(), "third"))
		mc = planetest.Wait(t, p, mc, func(mc *cachev1.Memcached) bool { return *mc.Spec.Size == 5 && settled(mc) })

		// Delete it: when it is gone, so are its nodes, and then everything is.
		if err := user.Delete(ctx, mc); err != nil {
			t.Fatal(err)
		}
		planetest.WaitGone(t, p, mc)
		var pods corev1.PodList
		if err := user.List(ctx, &pods, client.InNamespace("default")); err != nil || len(pods.Items) > 0 {
			t.Errorf("the Memcached is gone, but %d Pods are not: %v", len(pods.Items), err)
		}
		for _, obj := range []client.Object{set, service, budget} {
			planetest.WaitGone(t, p, obj)
		}
	})
}

// TestMemcachedRole: the operator can do all of its work with the rights of its manifest, and needs each of them.
func TestMemcachedRole(t *testing.T) {
	eachRuleNeeded(t, plane.Config{}, memcached.RBAC(), func(t testing.TB, p planetest.Cluster, operator *rest.Config) {
		user := installMemcached(t, p)
		mc := newMemcached("least", 2)
		set, service, budget := childrenOf(mc)
		operator.Wrap(anotherFirst(t, user, budget, "PATCH /apis/policy/v1/namespaces/default/poddisruptionbudgets/least"))
		begin(t, newMemcachedManager(t, operator, "only"))
		if err := user.Create(t.Context(), mc); err != nil {
			t.Fatal(err)
		}
		// A stranger's budget was there first, unknown to the cache.
		planetest.Wait(t, p, mc, func(mc *cachev1.Memcached) bool {
			c, _ := condition.Get(mc.Status.Conditions, cachev1.ConditionDegraded)
			return c.Reason == cachev1.ReasonNameTaken
		})
		for _, obj := range []client.Object{budget, service, service} {
			before := planetest.Wait(t, p, obj, exists)
			if err := user.Delete(t.Context(), before); err != nil {
				t.Fatal(err)
			}
			planetest.Wait(t, p, obj, func(o client.Object) bool { return o.GetUID() != before.GetUID() })
		}
		scale(t, user, mc, 3)
		mc = planetest.Wait(t, p, mc, settled)
		// What was created twice is one Event, of a series.
		awaitEvent(t, p, func(e *eventsv1.Event) bool {
			return e.Regarding.UID == mc.UID && e.Reason == "ServiceCreated" && e.Series != nil
		})
		if err := user.Delete(t.Context(), mc); err != nil {
			t.Fatal(err)
		}
		planetest.WaitGone(t, p, mc)
		planetest.WaitGone(t, p, set)
	})
}

// anotherFirst has somebody else create an object just before the first write that is the given method and path.
func anotherFirst(t testing.TB, user *client.Client, obj client.Object, write string) func(http.RoundTripper) http.RoundTripper {
	var once sync.Once
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method+" "+r.URL.Path == write {
				once.Do(func() {
					if err := user.Create(r.Context(), obj.DeepCopyObject().(client.Object)); err != nil {
						t.Errorf("creating what the operator is about to create: %v", err)
					}
				})
			}
			return next.RoundTrip(r)
		})
	}
}

// awaitEvent waits until an Event in the namespace default holds.
func awaitEvent(t testing.TB, p planetest.Cluster, holds func(*eventsv1.Event) bool) {
	t.Helper()
	events, err := eventsclient.NewForConfig(p.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), planetest.Timeout)
	defer cancel()
	seen, err := events.Events("default").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer seen.Stop()
	for change := range seen.ResultChan() {
		if e, is := change.Object.(*eventsv1.Event); is && holds(e) {
			return
		}
	}
	t.Fatalf("the Event did not come in %v", planetest.Timeout)
}

// exists is for objects that only have to be there.
func exists[T client.Object](T) bool { return true }

// scale changes the size as kubectl scale and autoscalers do.
func scale(t testing.TB, user *client.Client, mc *cachev1.Memcached, size int32) {
	t.Helper()
	text := fmt.Sprintf(`{"spec":{"replicas":%d}}`, size)
	err := user.SubResource("scale").Patch(t.Context(), mc.DeepCopy(),
		client.RawPatch(types.MergePatchType, []byte(text)), client.SubResourceBody(&autoscalingv1.Scale{}))
	if err != nil {
		t.Fatal(err)
	}
}
