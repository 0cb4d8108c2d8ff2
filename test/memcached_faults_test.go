package test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/condition"
	cachev1 "github.com/setpoint-dev/setpoint/operators/memcached/v1"
	"github.com/setpoint-dev/setpoint/owner"
	"github.com/setpoint-dev/setpoint/plane/planetest"
)

// The tests of this file are about what is wrong with the Memcached operators that others show as an example, one fault
// each, and about strangers and failures. They run in virtual time.

// scene is a plane with a user, and the requests that an operator sent.
type scene struct {
	*testing.T
	planetest.Cluster
	user *client.Client
	sent *requestLog
}

func (s *scene) create(obj client.Object) {
	s.Helper()
	if err := s.user.Create(s.Context(), obj); err != nil {
		s.Fatal(err)
	}
}

// remove deletes an object and waits until it is gone.
func (s *scene) remove(obj client.Object) {
	s.Helper()
	if err := s.user.Delete(s.Context(), obj); err != nil {
		s.Fatal(err)
	}
	planetest.WaitGone(s.T, s, obj)
}

// caching is a scene with the kind Memcached.
type caching struct{ *scene }

func withMemcached(t *testing.T, test func(c *caching)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := planetest.New(t)
		test(&caching{&scene{T: t, Cluster: p, user: installMemcached(t, p), sent: &requestLog{}}})
	})
}

// start runs an operator, whose requests pass what is given and are logged.
func (c *caching) start(wrap ...func(http.RoundTripper) http.RoundTripper) (stop func()) {
	c.Helper()
	config := c.RESTConfig()
	for _, w := range append(wrap, c.sent.wrap) {
		config.Wrap(w)
	}
	return begin(c.T, newMemcachedManager(c.T, config, ""))
}

// settle waits until a Memcached is what its present spec asks for.
func (c *caching) settle(mc *cachev1.Memcached) *cachev1.Memcached {
	c.Helper()
	generation := mc.Generation
	return planetest.Wait(c.T, c, mc, func(mc *cachev1.Memcached) bool { return mc.Generation >= generation && settled(mc) })
}

// degraded waits until a Memcached is, for that reason.
func (c *caching) degraded(mc *cachev1.Memcached, reason string) *cachev1.Memcached {
	c.Helper()
	return planetest.WaitFor(c.T, c, time.Hour, mc, func(mc *cachev1.Memcached) bool {
		d, _ := condition.Get(mc.Status.Conditions, cachev1.ConditionDegraded)
		return d.Status == metav1.ConditionTrue && d.Reason == reason
	})
}

// patch changes an object as a user would, and returns it.
func (c *caching) patch(obj client.Object, kind types.PatchType, text string) {
	c.Helper()
	if err := c.user.Patch(c.Context(), obj, client.RawPatch(kind, []byte(text))); err != nil {
		c.Fatal(err)
	}
}

// writes takes the log and returns how many writes there were, by path from the resource on.
func (c *caching) writes() map[string]int {
	out := map[string]int{}
	for _, line := range c.sent.take() {
		verb, path, _ := strings.Cut(line, " ")
		if verb == "GET" || verb == "WATCH" || strings.Contains(path, "/events") {
			continue
		}
		_, what, _ := strings.Cut(path, "/namespaces/default/")
		out[verb+" "+what]++
	}
	return out
}

// A status write after a read that lags conflicts, each time. Here nothing ever conflicts.
func TestMemcachedFaultStatusConflicts(t *testing.T) {
	withMemcached(t, func(c *caching) {
		var mu sync.Mutex
		var refused []string
		c.start(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				response, err := next.RoundTrip(r)
				if err == nil && response.StatusCode >= 400 && r.Method != http.MethodGet {
					mu.Lock()
					defer mu.Unlock()
					refused = append(refused, r.Method+" "+r.URL.Path+" "+response.Status)
				}
				return response, err
			})
		})
		mc := newMemcached("web", 3)
		c.create(mc)
		mc = c.settle(mc)
		mergePatch(c.T, c.user, mc, `{"spec":{"size":5,"image":"memcached:1.6.40"}}`)
		mc = c.settle(mc)
		c.remove(mc)
		mu.Lock()
		defer mu.Unlock()
		if len(refused) > 0 {
			c.Errorf("the server refused:\n%s", strings.Join(refused, "\n"))
		}
	})
}

// An error of a write that is dropped leaves the work undone. Here the first two writes of each kind fail, and all is done
// nevertheless.
func TestMemcachedFaultDroppedErrors(t *testing.T) {
	withMemcached(t, func(c *caching) {
		failed := map[string]int{}
		var mu sync.Mutex
		c.start(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				_, what, _ := strings.Cut(r.URL.Path, "/namespaces/default/")
				what = r.Method + " " + strings.Replace(what, "/web", "", 1)
				mu.Lock()
				fails := r.Method != http.MethodGet && !strings.Contains(what, "events") && failed[what] < 2
				if fails {
					failed[what]++
				}
				mu.Unlock()
				if !fails {
					return next.RoundTrip(r)
				}
				return &http.Response{
					StatusCode: http.StatusInternalServerError, Status: "500 Internal Server Error", Request: r,
					Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(nil)),
				}, nil
			})
		})
		mc := newMemcached("web", 1)
		c.create(mc)
		mc = c.settle(mc)
		c.remove(mc)
		mu.Lock()
		defer mu.Unlock()
		for _, write := range []string{
			"PATCH memcacheds", "PATCH memcacheds/status", "PATCH statefulsets", "PATCH services", "PATCH poddisruptionbudgets",
			"DELETE services", "DELETE statefulsets",
		} {
			if failed[write] != 2 {
				c.Errorf("%s failed %d times, want 2: the test shows nothing about it (%v)", write, failed[write], failed)
			}
		}
	})
}

// A finalizer that is added before looking at the deletion, which the server refuses for ever. Here nothing is done for
// what is going.
func TestMemcachedFaultFinalizerOnTheDying(t *testing.T) {
	withMemcached(t, func(c *caching) {
		mc := newMemcached("web", 1)
		mc.Finalizers = []string{"example.com/other"}
		c.create(mc)
		if err := c.user.Delete(c.Context(), mc); err != nil {
			c.Fatal(err)
		}
		c.start()
		time.Sleep(time.Minute)
		if writes := c.writes(); len(writes) > 0 {
			c.Errorf("it wrote %v", writes)
		}
		mergePatch(c.T, c.user, mc, `{"metadata":{"finalizers":null}}`)
		planetest.WaitGone(c.T, c, mc)
	})
}

// Available is set without looking at the workload. Here it is True only with enough nodes that are ready, and a roll-out
// that does not get anywhere is called so, and what is wrong is in the conditions and in an Event.
func TestMemcachedFaultAvailableIsInvented(t *testing.T) {
	withMemcached(t, func(c *caching) {
		c.start()
		mc := newMemcached("web", 3)
		c.create(mc)
		mc = planetest.Wait(c.T, c, mc, func(mc *cachev1.Memcached) bool {
			available := condition.IsTrueFor(mc.Status.Conditions, cachev1.ConditionAvailable, mc.Generation)
			if enough := mc.Status.ReadyReplicas >= *mc.Spec.Size-1; available != enough && mc.Status.ObservedGeneration > 0 {
				c.Errorf("Available is %t with %d nodes ready", available, mc.Status.ReadyReplicas)
			}
			return settled(mc)
		})
		set, _, _ := childrenOf(mc)

		// The nodes are replaced, and the first of them never gets ready: clients are served, but help is needed.
		mergePatch(c.T, c.user, set.DeepCopy(), `{"spec":{"template":{"metadata":{"annotations":{"node.setpoint.dev/ready":"never"}}}}}`)
		began := time.Now()
		mc = c.degraded(mc, cachev1.ReasonNoProgress)
		if took := time.Since(began); took < 10*time.Minute-time.Second || took > 11*time.Minute {
			c.Errorf("that nothing moves was said after %v", took)
		}
		if !condition.IsTrue(mc.Status.Conditions, cachev1.ConditionAvailable) || mc.Status.ReadyReplicas != 2 {
			c.Errorf("with two of three nodes the status is %+v", mc.Status)
		}
		awaitEvent(c.T, c, func(e *eventsv1.Event) bool {
			return e.Regarding.UID == mc.UID && e.Reason == cachev1.ReasonNoProgress && strings.Contains(e.Note, `"web-2"`)
		})

		// Another problem of the same node is said at once, and when it is solved all is well again.
		mergePatch(c.T, c.user, set.DeepCopy(), `{"spec":{"template":{"metadata":{"annotations":{"node.setpoint.dev/ready":null,"node.setpoint.dev/image-pull":"fail"}}}}}`)
		c.degraded(mc, cachev1.ReasonNodeFailing)
		mergePatch(c.T, c.user, set.DeepCopy(), `{"spec":{"template":{"metadata":{"annotations":{"node.setpoint.dev/image-pull":null}}}}}`)
		c.settle(mc)
	})
}

// There is no observedGeneration, so that nobody knows what the status is about. Here no status claims more for a
// generation than there is.
func TestMemcachedFaultNoObservedGeneration(t *testing.T) {
	withMemcached(t, func(c *caching) {
		c.start()
		mc := newMemcached("web", 1)
		c.create(mc)
		mc = c.settle(mc)
		mergePatch(c.T, c.user, mc.DeepCopy(), `{"spec":{"size":4}}`)
		planetest.Wait(c.T, c, mc, func(mc *cachev1.Memcached) bool {
			for _, cond := range mc.Status.Conditions {
				if cond.ObservedGeneration != mc.Status.ObservedGeneration {
					c.Errorf("%s is about generation %d, the status about %d", cond.Type, cond.ObservedGeneration, mc.Status.ObservedGeneration)
				}
			}
			if settled(mc) && len(mc.Status.Nodes) != int(*mc.Spec.Size) {
				c.Errorf("of generation %d it says that all is done with the nodes %v", mc.Generation, mc.Status.Nodes)
			}
			return settled(mc) && *mc.Spec.Size == 4
		})
	})
}

// The status is written at the end of each pass. Here a pass that finds nothing to do writes nothing, and neither does a
// restart.
func TestMemcachedFaultWritesWithoutChange(t *testing.T) {
	withMemcached(t, func(c *caching) {
		stop := c.start()
		mc := newMemcached("web", 2)
		c.create(mc)
		mc = c.settle(mc)
		time.Sleep(time.Minute)
		if len(c.writes()) == 0 {
			c.Fatal("the log shows no writes at all")
		}
		mergePatch(c.T, c.user, mc.DeepCopy(), `{"metadata":{"labels":{"looked":"at"}}}`)
		time.Sleep(5 * time.Minute)
		stop()
		c.start()
		time.Sleep(5 * time.Minute)
		if writes := c.writes(); len(writes) > 0 {
			c.Errorf("with nothing to do it wrote %v", writes)
		}
	})
}

// A port or an image that somebody changed stays. Here everything that the Memcached speaks about comes back, and what it
// speaks about no longer goes.
func TestMemcachedFaultDriftStays(t *testing.T) {
	withMemcached(t, func(c *caching) {
		c.start()
		mc := newMemcached("web", 1)
		mc.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("1Gi")}
		c.create(mc)
		mc = c.settle(mc)
		set, service, budget := childrenOf(mc)
		c.patch(set.DeepCopy(), types.StrategicMergePatchType, `{"spec":{"replicas":7,"template":{"spec":{"containers":[
			{"name":"memcached","image":"other:1","args":["-p","1"],"ports":[{"$patch":"replace"},{"name":"memcached","containerPort":1,"protocol":"TCP"}]}]}}}}`)
		c.patch(service.DeepCopy(), types.MergePatchType, `{"spec":{"selector":{"a":"b"},"ports":[{"name":"memcached","port":1}]}}`)
		c.patch(budget.DeepCopy(), types.MergePatchType, `{"spec":{"maxUnavailable":7}}`)
		child := planetest.Wait(c.T, c, set, func(s *appsv1.StatefulSet) bool {
			container := s.Spec.Template.Spec.Containers[0]
			return *s.Spec.Replicas == 1 && container.Image == "memcached:1.6" && slices.Equal(container.Args, []string{"-p", "11211", "-m", "768"}) &&
				len(container.Ports) == 1 && container.Ports[0].ContainerPort == 11211
		})
		planetest.Wait(c.T, c, service, func(s *corev1.Service) bool {
			return len(s.Spec.Selector) == 1 && s.Spec.Selector["cache.setpoint.dev/memcached"] == "web" && len(s.Spec.Ports) == 1 && s.Spec.Ports[0].Port == 11211
		})
		planetest.Wait(c.T, c, budget, func(b *policyv1.PodDisruptionBudget) bool { return b.Spec.MaxUnavailable.IntValue() == 1 })
		// Only one of these can be set.
		c.patch(budget.DeepCopy(), types.MergePatchType, `{"spec":{"maxUnavailable":null,"minAvailable":0}}`)
		planetest.Wait(c.T, c, budget, func(b *policyv1.PodDisruptionBudget) bool {
			return b.Spec.MaxUnavailable != nil && b.Spec.MinAvailable == nil
		})
		if limit := child.Spec.Template.Spec.Containers[0].Resources.Limits.Cpu(); limit.Value() != 2 {
			c.Errorf("the CPU limit is %s", limit)
		}
		mergePatch(c.T, c.user, mc, `{"spec":{"resources":{"limits":{"cpu":null}}}}`)
		planetest.Wait(c.T, c, set, func(s *appsv1.StatefulSet) bool {
			_, limited := s.Spec.Template.Spec.Containers[0].Resources.Limits[corev1.ResourceCPU]
			return !limited
		})
	})
}

// Each step of a life costs three or four writes. Here each costs those that it is about.
func TestMemcachedFaultTooManyWrites(t *testing.T) {
	withMemcached(t, func(c *caching) {
		c.start()
		mc := newMemcached("web", 3)
		c.create(mc)
		mc = c.settle(mc)
		c.expectWrites("made", 9, "PATCH memcacheds/web", "PATCH services/web", "PATCH poddisruptionbudgets/web", "PATCH statefulsets/web")
		mergePatch(c.T, c.user, mc, `{"spec":{"size":2}}`)
		mc = c.settle(mc)
		c.expectWrites("scaled", 5, "PATCH statefulsets/web")
		c.remove(mc)
		c.expectWrites("deleted", 5, "DELETE services/web", "DELETE statefulsets/web", "PATCH memcacheds/web")
	})
}

// expectWrites takes the log. Each write must be in it once, and nothing else but so many writes of the status.
func (c *caching) expectWrites(step string, statuses int, want ...string) {
	c.Helper()
	writes := c.writes()
	if n := writes["PATCH memcacheds/web/status"]; n > statuses {
		c.Errorf("%s: the status was written %d times, want at most %d", step, n, statuses)
	}
	delete(writes, "PATCH memcacheds/web/status")
	for _, write := range want {
		if writes[write] != 1 {
			c.Errorf("%s: %s was sent %d times, want once", step, write, writes[write])
		}
		delete(writes, write)
	}
	if len(writes) > 0 {
		c.Errorf("%s: it also wrote %v", step, writes)
	}
}

// A reconcile that waits comes back after a minute. Here it comes back when there is something to see.
func TestMemcachedFaultPolls(t *testing.T) {
	withMemcached(t, func(c *caching) {
		c.start()
		began := time.Now()
		mc := newMemcached("web", 3)
		c.create(mc)
		mc = c.settle(mc)
		mergePatch(c.T, c.user, mc, `{"spec":{"size":6}}`)
		c.settle(mc)
		if took := time.Since(began); took > 2*time.Second {
			c.Errorf("to start six nodes that are ready in milliseconds took %v", took)
		}
	})
}

// A name that is in use is taken over, or an error for ever. Here strangers are left alone and named, the rest is done, and
// it goes on when they are gone.
func TestMemcachedLeavesStrangersAlone(t *testing.T) {
	withMemcached(t, func(c *caching) {
		mc := newMemcached("web", 1)
		set, service, budget := childrenOf(mc)
		labels := map[string]string{"of": "others"}
		set.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		set.Spec.Template = corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}},
		}
		service.Spec.Ports = []corev1.ServicePort{{Port: 80}}
		strangers := []client.Object{set, service, budget}
		for _, obj := range strangers {
			c.create(obj)
		}
		c.start()
		c.create(mc)
		c.degraded(mc, cachev1.ReasonNameTaken)
		for _, obj := range strangers {
			if got := planetest.Wait(c.T, c, obj, exists); owner.ControllerOf(got) != nil || got.GetUID() != obj.GetUID() {
				c.Errorf("%T was taken over: %v", got, got.GetOwnerReferences())
			}
		}
		for _, obj := range strangers {
			c.remove(obj)
		}
		c.settle(mc)
	})
}

// What the server refuses is said, and goes on when it no longer does.
func TestMemcachedSaysWhatIsRefused(t *testing.T) {
	withMemcached(t, func(c *caching) {
		quota := &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "none"},
			Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/statefulsets.apps": resource.MustParse("0")}},
		}
		c.create(quota)
		planetest.Wait(c.T, c, quota, func(q *corev1.ResourceQuota) bool { return len(q.Status.Hard) > 0 })
		c.start()
		mc := newMemcached("web", 1)
		c.create(mc)
		mc = c.degraded(mc, cachev1.ReasonRejected)
		if d, _ := condition.Get(mc.Status.Conditions, cachev1.ConditionDegraded); !strings.Contains(d.Message, "exceeded quota") {
			c.Errorf("it does not say why: %s", d.Message)
		}
		c.remove(quota)
		mc = planetest.WaitFor(c.T, c, time.Hour, mc, settled)

		// A change that is refused leaves the nodes as they are, and the status says both.
		mergePatch(c.T, c.user, mc.DeepCopy(), `{"spec":{"resources":{"requests":{"memory":"2Gi"},"limits":{"memory":"1Gi"}}}}`)
		mc = c.degraded(mc, cachev1.ReasonRejected)
		if !condition.IsTrue(mc.Status.Conditions, cachev1.ConditionAvailable) || len(mc.Status.Nodes) != 1 {
			c.Errorf("a node serves on, but the status is %+v", mc.Status)
		}
	})
}

// Deleted with its dependents orphaned, a Memcached leaves all of them to serve on.
func TestMemcachedOrphans(t *testing.T) {
	withMemcached(t, func(c *caching) {
		c.start()
		mc := newMemcached("web", 2)
		c.create(mc)
		mc = c.settle(mc)
		if err := c.user.Delete(c.Context(), mc, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
			c.Fatal(err)
		}
		planetest.WaitGone(c.T, c, mc)
		set, service, budget := childrenOf(mc)
		time.Sleep(time.Minute)
		for _, obj := range []client.Object{set, service, budget} {
			if got := planetest.Wait(c.T, c, obj, exists); owner.ControllerOf(got) != nil || got.GetDeletionTimestamp() != nil {
				c.Errorf("%T is still owned, or going: %v", got, got.GetOwnerReferences())
			}
		}
		if s := planetest.Wait(c.T, c, set, exists); s.Status.ReadyReplicas != 2 {
			c.Errorf("%d nodes are left", s.Status.ReadyReplicas)
		}
	})
}

// The schema alone fills in and refuses what it can.
func TestMemcachedSchema(t *testing.T) {
	withMemcached(t, func(c *caching) {
		least := &cachev1.Memcached{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "least"}}
		c.create(least)
		if *least.Spec.Size != 1 || least.Spec.Image == "" || least.Spec.ContainerPort != 11211 || least.Spec.MemoryLimitMB != nil {
			c.Errorf("the defaults are %+v", least.Spec)
		}
		for why, change := range map[string]func(*cachev1.Memcached){
			"a name with a dot":  func(mc *cachev1.Memcached) { mc.Name = "a.b" },
			"a long name":        func(mc *cachev1.Memcached) { mc.Name = strings.Repeat("a", 53) },
			"too many nodes":     func(mc *cachev1.Memcached) { mc.Spec.Size = new(int32(101)) },
			"a port there isn't": func(mc *cachev1.Memcached) { mc.Spec.ContainerPort = 65536 },
			"no memory":          func(mc *cachev1.Memcached) { mc.Spec.MemoryLimitMB = new(int32(0)) },
			"two words of image": func(mc *cachev1.Memcached) { mc.Spec.Image = "a b" },
			"a port by argument": func(mc *cachev1.Memcached) { mc.Spec.ExtraArgs = []string{"--port=1"} },
			"an empty argument":  func(mc *cachev1.Memcached) { mc.Spec.ExtraArgs = []string{""} },
			"claims":             func(mc *cachev1.Memcached) { mc.Spec.Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}} },
		} {
			mc := newMemcached("wrong", 1)
			change(mc)
			if err := c.user.Create(c.Context(), mc, client.DryRun); !apierrors.IsInvalid(err) {
				c.Errorf("%s: got %v, want Invalid", why, err)
			}
		}
		if err := c.user.Create(context.Background(), newMemcached(strings.Repeat("a", 52), 100), client.DryRun); err != nil {
			c.Errorf("as much as is allowed: %v", err)
		}
	})
}
