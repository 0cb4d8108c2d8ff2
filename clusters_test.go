package setpoint_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/internal/apitest"
	"github.com/setpoint-dev/setpoint/owner"
)

// line is the way to the API server of a cluster. It can be cut, so that every
// request fails at once, and it can hang: then the server takes every request and
// answers none.
type line struct {
	server *apitest.Server
	mu     sync.Mutex
	cut    bool
	hangs  bool
	writes bool // only writes hang
}

func (l *line) set(change func(*line)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(l)
}

// RoundTrip implements http.RoundTripper.
func (l *line) RoundTrip(req *http.Request) (*http.Response, error) {
	l.mu.Lock()
	cut, hangs := l.cut, l.hangs && (!l.writes || req.Method != http.MethodGet)
	l.mu.Unlock()
	switch {
	case cut:
		return nil, errCut
	case hangs:
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	return l.server.RoundTrip(req)
}

// clusterConfig reaches the server by the line. Its mapper needs no discovery,
// for which client-go waits under a lock.
func (l *line) clusterConfig() setpoint.ClusterConfig {
	cfg := setpoint.ClusterConfig{REST: l.server.REST()}
	cfg.REST.Transport = l
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []apitest.Kind{apitest.ConfigMaps, apitest.Secrets, apitest.Deployments, apitest.ReplicaSets} {
		mapper.Add(kind.GroupVersionKind, meta.RESTScopeNamespace)
	}
	cfg.Mapper = mapper
	return cfg
}

// newLine returns a line to a new server with ConfigMaps of these names in the
// namespace default.
func newLine(names ...string) *line {
	server := apitest.New(apitest.ConfigMaps, apitest.Secrets, apitest.Deployments, apitest.ReplicaSets, apitest.Events)
	for _, name := range names {
		apitest.Put(server, configMap("default", name))
	}
	return &line{server: server}
}

// withMembers makes a rig whose own cluster has the ConfigMap "home", with members.
func withMembers(t *testing.T, members map[string]*line, options ...func(*setpoint.Config)) *rig {
	t.Helper()
	home := apitest.New(apitest.ConfigMaps, apitest.Secrets, apitest.Leases, apitest.Events)
	apitest.Put(home, configMap("default", "home"))
	r := newRig(t, home, options...)
	for name, l := range members {
		r.add(name, l)
	}
	return r
}

func (r *rig) add(name string, l *line) {
	r.Helper()
	if err := r.m.AddCluster(name, l.clusterConfig()); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) remove(name string) {
	r.Helper()
	if err := r.m.RemoveCluster(context.Background(), name); err != nil {
		r.Fatal(err)
	}
}

// touring declares a controller that works in all clusters and counts its
// reconciles by request.
func (r *rig) touring(ran *calls) {
	setpoint.For[*corev1.ConfigMap](r.m, "touring").
		In(setpoint.AllClusters).
		Reconcile(func(ctx context.Context, o *corev1.ConfigMap) (setpoint.Result, error) {
			ran.add(setpoint.ClusterOf(ctx).Name() + ":" + o.Name)
			return setpoint.Result{}, nil
		})
}

// change has a ConfigMap of the server change.
func change(server *apitest.Server, name, value string) {
	o := configMap("default", name)
	o.Data = map[string]string{"v": value}
	apitest.Put(server, o)
}

// One controller works in its own cluster and in others, on objects of the same
// names, each with the client, the children and the Events of its cluster.
func TestClusters(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := newLine(), newLine()
		apitest.Put(a.server, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}})
		apitest.Put(b.server, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}})
		r := withMembers(t, map[string]*line{"a": a, "b": b})
		ran := &calls{}
		setpoint.For[*appsv1.Deployment](r.m, "deploy").
			In(setpoint.MemberClusters).
			Owns(&appsv1.ReplicaSet{}).
			Reconcile(func(ctx context.Context, o *appsv1.Deployment) (setpoint.Result, error) {
				c := setpoint.ClusterOf(ctx)
				ran.add(c.Name())
				child := &appsv1.ReplicaSet{
					TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ReplicaSet"},
					ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: "web", Labels: map[string]string{"of": c.Name()}},
				}
				if err := owner.SetController(o, child, c.Client().Scheme()); err != nil {
					return setpoint.Result{}, err
				}
				c.Events("deploy").Eventf(o, corev1.EventTypeNormal, "Applied", "Apply", "in cluster %s", c.Name())
				if err := c.Client().Apply(ctx, child); err != nil {
					return setpoint.Result{}, err
				}
				var own appsv1.ReplicaSet
				if err := c.Client().Get(ctx, client.KeyOf(child), &own); err != nil || own.Labels["of"] != c.Name() {
					t.Errorf("cluster %s: own write not seen: %v, %v", c.Name(), own.Labels, err)
				}
				return setpoint.Result{}, nil
			})
		r.start()
		settle(time.Minute)
		if ran.of("a") > 2 || ran.of("b") > 2 {
			t.Errorf("ran %d and %d times, want once and once more for the child at most", ran.of("a"), ran.of("b"))
		}
		before := ran.of("b")
		a.server.Delete(&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}})
		settle(time.Minute)
		for name, l := range map[string]*line{"a": a, "b": b} {
			child := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
			if !l.server.Get(child) || child.Labels["of"] != name {
				t.Errorf("cluster %s has the child %v", name, child.Labels)
			}
			if events := l.server.Events(); len(events) != 1 || !strings.Contains(events[0].Note, "in cluster "+name) {
				t.Errorf("cluster %s has the Events %v", name, events)
			}
		}
		if n := ran.of("b"); n != before {
			t.Errorf("a child that went in cluster a ran cluster b %d times", n-before)
		}
		for _, l := range []*line{a, b} {
			for _, request := range l.server.Requests() {
				if request.Resource == "leases" {
					t.Errorf("a member was asked for leases: %v", request)
				}
			}
		}
	})
}

// Clusters come and go while the manager runs. What goes leaves no reconcile, no
// goroutine (the bubble would see it) and no metric; its name may be used again.
func TestClustersComeAndGo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := newLine("x"), newLine("x")
		r := withMembers(t, map[string]*line{"a": a})
		ran := &calls{}
		r.touring(ran)
		r.start()
		settle(time.Second)
		if ran.of(":home") != 1 || ran.of("a:x") != 1 {
			t.Errorf("at the start: home ran %d times, a %d times", ran.of(":home"), ran.of("a:x"))
		}
		r.add("b", b)
		settle(time.Second)
		if ran.of("b:x") != 1 {
			t.Errorf("a cluster that was added ran %d times", ran.of("b:x"))
		}
		if got := r.metric("setpoint_cluster_ready"); got != "setpoint_cluster_ready{cluster=\"a\"} 1\nsetpoint_cluster_ready{cluster=\"b\"} 1" {
			t.Error(got)
		}
		if _, body := r.get("/readyz?verbose"); !strings.Contains(body, "[+]clusters ok: 2 of 2 ready") {
			t.Error(body)
		}
		adds := r.metric("workqueue_adds_total")

		gone := r.m.Cluster("a")
		r.remove("a")
		a.server.Requests()
		change(a.server, "x", "unseen")
		change(b.server, "x", "seen")
		settle(time.Hour)
		if ran.of("a:x") != 1 || ran.of("b:x") != 2 {
			t.Errorf("after the removal: a ran %d times, b %d times", ran.of("a:x"), ran.of("b:x"))
		}
		if sent := a.server.Requests(); len(sent) > 0 {
			t.Errorf("sent to the removed cluster: %v", sent)
		}
		if r.m.Cluster("a") != nil || len(r.m.Clusters()) != 2 {
			t.Errorf("clusters: %v", r.m.Clusters())
		}
		if _, body := r.get("/metrics"); strings.Contains(body, `cluster="a"`) {
			t.Errorf("metrics of the removed cluster: %s", body)
		}
		if now := r.metric("workqueue_adds_total"); now != strings.Replace(adds, " 3", " 4", 1) {
			t.Errorf("a counter went from %s to %s", adds, now)
		}
		if err := gone.Client().Get(t.Context(), client.KeyOf(configMap("default", "x")), &corev1.ConfigMap{}); err == nil ||
			!strings.Contains(err.Error(), "the cluster was removed from the manager") {
			t.Errorf("a read of the removed cluster: %v", err)
		}

		other := newLine("y")
		r.add("a", other)
		settle(time.Second)
		if ran.of("a:y") != 1 || ran.of("a:x") != 1 {
			t.Errorf("another cluster of the name: y ran %d times, x %d times", ran.of("a:y"), ran.of("a:x"))
		}
	})
}

// A cluster that never answers, and one that is gone, cost the others nothing: not
// at the start, not while their reconciles hang, and not the readiness.
func TestDeadClustersCostOthersNothing(t *testing.T) {
	for _, test := range []struct {
		name string
		fail func(*line)
	}{
		{"gone", func(l *line) { l.cut = true }},
		{"hanging", func(l *line) { l.hangs = true }},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				good, bad := newLine("x"), newLine("x")
				bad.set(test.fail)
				r := withMembers(t, map[string]*line{"bad": bad, "good": good})
				ran := &calls{}
				r.touring(ran)
				r.start()
				if ran.of("good:x") != 1 || ran.of(":home") != 1 {
					t.Errorf("good ran %d times, home %d times before any time passed", ran.of("good:x"), ran.of(":home"))
				}
				if code, body := r.get("/readyz"); code != 503 || !strings.Contains(body, `cluster "bad"`) {
					t.Errorf("at first, clusters are waited for: %d %s", code, body)
				}
				settle(31 * time.Second)
				code, body := r.get("/readyz?verbose")
				if code != 200 || !strings.Contains(body, `clusters ok: 1 of 2 ready; not ready: bad: controller "touring": For ConfigMap: waiting for the first listing`) {
					t.Errorf("/readyz %d: %s", code, body)
				}
				if got := r.metric("setpoint_cluster_ready"); got != "setpoint_cluster_ready{cluster=\"bad\"} 0\nsetpoint_cluster_ready{cluster=\"good\"} 1" {
					t.Error(got)
				}
				if got := r.metric("setpoint_controller_ready"); got != `setpoint_controller_ready{controller="touring"} 1` {
					t.Error(got)
				}
				bad.set(func(l *line) { l.cut, l.hangs = false, false })
				settle(5 * time.Minute)
				if ran.of("bad:x") != 1 {
					t.Errorf("the cluster that came back ran %d times", ran.of("bad:x"))
				}
				if _, body := r.get("/readyz?verbose"); !strings.Contains(body, "2 of 2 ready") {
					t.Error(body)
				}
			})
		})
	}
}

// Reconciles of a cluster whose server stopped answering hold their own workers
// until their requests time out, and no others: those of another cluster take no
// longer than before.
func TestHungReconcilesHoldNoOtherWorkers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var names []string
		for n := range 20 {
			names = append(names, fmt.Sprint("x-", n))
		}
		good, bad := newLine("x"), newLine(names...)
		bad.set(func(l *line) { l.hangs, l.writes = true, true })
		r := withMembers(t, map[string]*line{"bad": bad, "good": good}, func(c *setpoint.Config) { c.Concurrency = 2 })
		var mu sync.Mutex
		seen := map[string]time.Time{} // by value
		failed := 0
		setpoint.For[*corev1.ConfigMap](r.m, "writing").
			In(setpoint.MemberClusters).
			Workers(2).
			Reconcile(func(ctx context.Context, o *corev1.ConfigMap) (setpoint.Result, error) {
				mu.Lock()
				seen[o.Data["v"]] = time.Now()
				mu.Unlock()
				o = o.DeepCopy()
				o.Labels = map[string]string{"seen": o.Data["v"]}
				err := setpoint.ClusterOf(ctx).Client().Update(ctx, o)
				if err != nil {
					mu.Lock()
					failed++
					mu.Unlock()
				}
				return setpoint.Result{}, err
			})
		r.start()
		for n := range 100 {
			value := fmt.Sprint(n)
			changed := time.Now()
			change(good.server, "x", value)
			synctest.Wait()
			mu.Lock()
			took := seen[value].Sub(changed)
			mu.Unlock()
			if took != 0 {
				t.Fatalf("change %d was reconciled after %v", n, took)
			}
			settle(time.Second)
		}
		if failed < 4 || failed > 8 {
			t.Errorf("%d requests to the hung cluster timed out in 100 s, want 2 every 30 s", failed)
		}
		if code, body := r.get("/healthz"); code != 200 {
			t.Errorf("/healthz %d: %s", code, body)
		}
	})
}

// A flood in one cluster does not delay another one.
func TestFloodOfOneCluster(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var names []string
		for n := range 500 {
			names = append(names, fmt.Sprint("x-", n))
		}
		r := withMembers(t, map[string]*line{"flood": newLine(names...), "calm": newLine("x")})
		var calm time.Time
		setpoint.For[*corev1.ConfigMap](r.m, "slow").
			In(setpoint.MemberClusters).
			ReconcileRequest(setpoint.ReconcilerFunc(func(_ context.Context, req setpoint.Request) (setpoint.Result, error) {
				if req.Cluster == "calm" {
					calm = time.Now()
				}
				time.Sleep(time.Second)
				return setpoint.Result{}, nil
			}))
		began := time.Now()
		r.start()
		settle(time.Minute)
		if took := calm.Sub(began); calm.IsZero() || took != 0 {
			t.Errorf("the calm cluster's object was reconciled after %v", took)
		}
	})
}

// Changes in some clusters bring requests of others: what is spread from the
// manager's own cluster reaches each member, also one that is added later, and
// what happens in members reaches the manager's own.
func TestRequestsAcrossClusters(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := newLine(), newLine()
		apitest.Put(a.server, secret("report"))
		r := withMembers(t, map[string]*line{"a": a})
		ran := &calls{}
		setpoint.For[*corev1.ConfigMap](r.m, "spread").
			In(setpoint.MemberClusters).
			WatchesIn(setpoint.HomeCluster, &corev1.ConfigMap{}, func(ctx context.Context, o client.Object) []setpoint.Request {
				if setpoint.ClusterOf(ctx) != r.m.Cluster("") {
					t.Errorf("the change comes from %v", setpoint.ClusterOf(ctx))
				}
				var requests []setpoint.Request
				for _, c := range r.m.Clusters()[1:] {
					requests = append(requests, setpoint.Request{Cluster: c.Name(), Namespace: o.GetNamespace(), Name: o.GetName()})
				}
				return requests
			}).
			ReconcileRequest(setpoint.ReconcilerFunc(func(ctx context.Context, req setpoint.Request) (setpoint.Result, error) {
				ran.add(req.String())
				if causes := setpoint.Causes(ctx); causes[0].Source == "Watches" && causes[0].Object != "default/home" {
					t.Errorf("%v was caused by %v", req, causes)
				}
				var wanted corev1.ConfigMap
				if err := r.m.Client().Get(ctx, req.Key(), &wanted); err != nil {
					return setpoint.Result{}, client.IgnoreNotFound(err)
				}
				spread := &corev1.ConfigMap{
					TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
					ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name}, Data: wanted.Data,
				}
				return setpoint.Result{}, setpoint.ClusterOf(ctx).Client().Apply(ctx, spread)
			}))
		setpoint.For[*corev1.ConfigMap](r.m, "gather").
			WatchesIn(setpoint.MemberClusters, &corev1.Secret{}, func(ctx context.Context, o client.Object) []setpoint.Request {
				ran.add("report of " + setpoint.ClusterOf(ctx).Name())
				return []setpoint.Request{{Namespace: "default", Name: "home"}}
			}).
			Reconcile(func(ctx context.Context, o *corev1.ConfigMap) (setpoint.Result, error) {
				for _, cause := range setpoint.Causes(ctx) {
					ran.add("gathered because of " + cause.Object)
				}
				return setpoint.Result{}, nil
			})
		change(r.server, "home", "1")
		r.start()
		settle(time.Second)
		r.add("b", b)
		settle(time.Second)
		apitest.Put(b.server, secret("report"))
		settle(time.Second)
		for name, l := range map[string]*line{"a": a, "b": b} {
			spread := configMap("default", "home")
			if !l.server.Get(spread) || spread.Data["v"] != "1" {
				t.Errorf("cluster %s has %v", name, spread.Data)
			}
			if ran.of("report of "+name) == 0 || ran.of("gathered because of "+name+":default/report") != 1 {
				t.Errorf("cluster %s: the report was mapped %d times and reconciled %d times", name,
					ran.of("report of "+name), ran.of("gathered because of "+name+":default/report"))
			}
		}
		change(r.server, "home", "2")
		settle(time.Second)
		for name, l := range map[string]*line{"a": a, "b": b} {
			if spread := configMap("default", "home"); !l.server.Get(spread) || spread.Data["v"] != "2" {
				t.Errorf("cluster %s has %v", name, spread.Data)
			}
		}
	})
}

// A map function that knows nothing of clusters wakes objects of the cluster that
// the change comes from.
func TestMapFunctionsStayInTheirCluster(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := newLine("x"), newLine("x")
		r := withMembers(t, map[string]*line{"a": a, "b": b})
		ran := &calls{}
		setpoint.For[*corev1.ConfigMap](r.m, "mapped").
			In(setpoint.AllClusters).
			Watches(&corev1.Secret{}, toConfigMap("x")).
			ReconcileRequest(setpoint.ReconcilerFunc(func(_ context.Context, req setpoint.Request) (setpoint.Result, error) {
				ran.add(req.String())
				return setpoint.Result{}, nil
			}))
		r.start()
		settle(time.Second)
		apitest.Put(a.server, secret("s"))
		settle(time.Second)
		if ran.of("a:default/x") != 2 || ran.of("b:default/x") != 1 || ran.of("default/x") != 0 {
			t.Errorf("ran %v", ran.by)
		}
	})
}

// Leases concern all clusters: a standby reconciles in none, and a reconcile that
// has lost its lease writes to none.
func TestLeaseConcernsAllClusters(t *testing.T) {
	bubble(t, func(t *testing.T) {
		home, member := apitest.New(apitest.ConfigMaps, apitest.Leases, apitest.Secrets), newLine("x")
		var replicas []*rig
		ran := &calls{}
		var writes []error
		for _, name := range []string{"one", "two"} {
			r := newRig(t, home, elected(name))
			r.add("a", member)
			setpoint.For[*corev1.ConfigMap](r.m, "led").
				In(setpoint.MemberClusters).
				Reconcile(func(ctx context.Context, o *corev1.ConfigMap) (setpoint.Result, error) {
					if ran.add(name); name == "two" {
						return setpoint.Result{}, nil
					}
					<-ctx.Done()
					ctx = context.WithoutCancel(ctx)
					writes = append(writes, setpoint.ClusterOf(ctx).Client().Create(ctx, secret("late")))
					return setpoint.Result{}, nil
				})
			replicas = append(replicas, r)
		}
		replicas[0].start()
		settle(time.Second)
		replicas[1].start()
		settle(time.Minute)
		if ran.of("one") != 1 || ran.of("two") != 0 {
			t.Fatalf("the leader ran %d times, the standby %d times", ran.of("one"), ran.of("two"))
		}
		home.Intercept(func(r apitest.Request) error {
			if r.UserAgent == "one" {
				return errors.New("cut off")
			}
			return nil
		})
		settle(time.Minute)
		if ran.of("two") == 0 {
			t.Error("the standby did not take over")
		}
		if len(writes) != 1 || writes[0] == nil {
			t.Errorf("writes without the lease: %v", writes)
		}
		if member.server.Count(apitest.Secrets) != 0 {
			t.Error("a write without the lease arrived")
		}
		home.Intercept(nil)
	})
}

// EveryCluster declares indexes in all clusters, before their watches.
func TestEveryCluster(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := newLine(), newLine()
		change(a.server, "x", "1")
		change(b.server, "x", "2")
		r := withMembers(t, map[string]*line{"a": a})
		byValue := func(o apiruntime.Object) []string { return []string{o.(*corev1.ConfigMap).Data["v"]} }
		r.m.EveryCluster(func(c *setpoint.Cluster) error {
			return c.Cache().Index(apitest.ConfigMaps.GroupVersionKind, "value", byValue)
		})
		found := &calls{}
		setpoint.For[*corev1.ConfigMap](r.m, "indexed").
			In(setpoint.AllClusters).
			Reconcile(func(ctx context.Context, o *corev1.ConfigMap) (setpoint.Result, error) {
				var list corev1.ConfigMapList
				err := setpoint.ClusterOf(ctx).Client().List(ctx, &list, client.MatchingFields{"value": "2"})
				found.add(fmt.Sprint(setpoint.ClusterOf(ctx).Name(), len(list.Items)))
				return setpoint.Result{}, err
			})
		r.start()
		r.add("b", b)
		settle(time.Second)
		if found.of("0") != 1 || found.of("a0") != 1 || found.of("b1") != 1 {
			t.Errorf("found %v", found.by)
		}
	})
}
