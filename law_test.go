package setpoint_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/internal/apitest"
	"github.com/setpoint-dev/setpoint/queue"
)

// Changes that come while an object is being reconciled bring one more
// reconcile, which reads the present and is told of no single change.
func TestLaw1LevelDriven(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps)
		r := newRig(t, server)
		var seen []string
		setpoint.For[*corev1.ConfigMap](r.m, "reader").
			Reconcile(func(_ context.Context, cm *corev1.ConfigMap) (setpoint.Result, error) {
				seen = append(seen, cm.Data["v"])
				time.Sleep(time.Second)
				return setpoint.Result{}, nil
			})
		r.start()
		for _, v := range []string{"1", "2", "3", "4"} {
			cm := configMap("default", "a")
			cm.Data = map[string]string{"v": v}
			apitest.Put(server, cm)
			synctest.Wait()
		}
		settle(time.Minute)
		if want := []string{"1", "4"}; !slices.Equal(seen, want) {
			t.Errorf("read %q, want %q", seen, want)
		}
	})
}

// One key is never reconciled twice at once, however many workers there are;
// different keys are.
func TestLaw2OneKeyOneWorker(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps)
		r := newRig(t, server)
		var mu sync.Mutex
		running, most := map[string]int{}, 0
		ran := &calls{}
		setpoint.For[*corev1.ConfigMap](r.m, "slow").Workers(4).
			Reconcile(func(_ context.Context, cm *corev1.ConfigMap) (setpoint.Result, error) {
				mu.Lock()
				if running[cm.Name]++; running[cm.Name] > 1 {
					t.Errorf("%s is reconciled %d times at once", cm.Name, running[cm.Name])
				}
				most = max(most, len(running))
				mu.Unlock()
				ran.add(cm.Name)
				time.Sleep(time.Second)
				mu.Lock()
				if running[cm.Name]--; running[cm.Name] == 0 {
					delete(running, cm.Name)
				}
				mu.Unlock()
				return setpoint.Result{}, nil
			})
		r.start()
		for round := range 3 {
			for _, name := range []string{"a", "b", "c"} {
				cm := configMap("default", name)
				cm.Data = map[string]string{"round": string(rune('0' + round))}
				apitest.Put(server, cm)
			}
			synctest.Wait()
		}
		settle(time.Minute)
		if most != 3 {
			t.Errorf("%d keys at once, want 3", most)
		}
		for _, name := range []string{"a", "b", "c"} {
			if n := ran.of(name); n != 2 {
				t.Errorf("%s ran %d times, want once and once more for all that came meanwhile", name, n)
			}
		}
	})
}

// What a reconciler does to the object that it is given reaches nobody else.
func TestLaw3PrivateCopies(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps)
		cm := configMap("default", "a")
		cm.Data = map[string]string{"v": "1"}
		cm.Labels = map[string]string{"l": "1"}
		apitest.Put(server, cm)
		r := newRig(t, server)
		n := 0
		setpoint.For[*corev1.ConfigMap](r.m, "spoiler").
			Reconcile(func(ctx context.Context, cm *corev1.ConfigMap) (setpoint.Result, error) {
				var again corev1.ConfigMap
				if err := r.m.Client().Get(ctx, types.NamespacedName{Namespace: "default", Name: "a"}, &again); err != nil {
					t.Error(err)
				}
				if cm.Data["v"] != "1" || cm.Labels["l"] != "1" || again.Data["v"] != "1" {
					t.Errorf("reconcile %d sees another's changes: %v %v %v", n, cm.Data, cm.Labels, again.Data)
				}
				cm.Data["v"], cm.Labels["l"], again.Data["v"] = "spoilt", "spoilt", "spoilt"
				n++
				return setpoint.Result{RequeueAfter: time.Second}, nil
			})
		r.start()
		settle(3500 * time.Millisecond)
		if n != 4 {
			t.Errorf("%d reconciles, want 4", n)
		}
	})
}

// A read of a kind that no controller watches goes to the server and starts no
// watch, however often it is done.
func TestLaw4NothingStartsByItself(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps, apitest.Secrets)
		apitest.Put(server, configMap("default", "a"))
		r := newRig(t, server)
		setpoint.For[*corev1.ConfigMap](r.m, "reader").
			Reconcile(func(ctx context.Context, cm *corev1.ConfigMap) (setpoint.Result, error) {
				err := r.m.Client().Get(ctx, types.NamespacedName{Namespace: "default", Name: "s"}, &corev1.Secret{})
				if !apierrors.IsNotFound(err) {
					t.Errorf("Get: %v, want NotFound", err)
				}
				return setpoint.Result{}, r.m.Client().List(ctx, &corev1.SecretList{})
			})
		r.start()
		settle(time.Minute)
		var got []string
		for _, q := range server.Requests() {
			if q.Resource == "secrets" {
				got = append(got, q.String())
			}
		}
		if want := []string{"get secrets default/s", "list secrets"}; !slices.Equal(got, want) {
			t.Errorf("requests %q, want %q", got, want)
		}
	})
}

// A child wakes the owner that its UID names, not another object of that name.
func TestLaw8OwnersMatchByUID(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps, apitest.Secrets)
		owner := apitest.Put(server, configMap("default", "owner"))
		r := newRig(t, server)
		var causes []queue.Cause
		setpoint.For[*corev1.ConfigMap](r.m, "owner").Owns(&corev1.Secret{}).
			Reconcile(func(ctx context.Context, _ *corev1.ConfigMap) (setpoint.Result, error) {
				causes = append(causes, setpoint.Causes(ctx)...)
				return setpoint.Result{}, nil
			})
		r.start()
		settle(time.Second)

		yes, group := true, "v1"
		child := func(name, apiVersion, kind string, uid types.UID, controller *bool) *corev1.Secret {
			return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name,
				OwnerReferences: []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "owner", UID: uid, Controller: controller}}}}
		}
		for _, test := range []struct {
			child *corev1.Secret
			woken bool
		}{
			{child("same-uid", group, "ConfigMap", owner.UID, &yes), true},
			{child("other-uid", group, "ConfigMap", "other", &yes), false},
			{child("other-kind", group, "Secret", owner.UID, &yes), false},
			{child("other-group", "apps/v1", "ConfigMap", owner.UID, &yes), false},
			{child("not-controller", group, "ConfigMap", owner.UID, nil), false},
		} {
			causes = nil
			apitest.Put(server, test.child)
			settle(time.Second)
			if woken := len(causes) > 0; woken != test.woken {
				t.Errorf("%s: woken is %v, want %v (%v)", test.child.Name, woken, test.woken, causes)
			}
		}
	})
}

// Errors back off by key, twice as long each time, and success ends that. A
// change runs at once meanwhile; a plan leaves no back-off behind.
func TestLaw9ErrorsBackOff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps)
		apitest.Put(server, configMap("default", "a"))
		r := newRig(t, server)
		start := time.Now()
		var at []time.Duration
		// The answers of one reconcile after the other; then success.
		fail := errors.New("out of order")
		answers := []struct {
			result setpoint.Result
			err    error
		}{
			{err: fail}, {err: fail}, {err: fail},
			{result: setpoint.Result{RequeueAfter: time.Second}},
			{result: setpoint.Result{Requeue: true}}, {err: fail},
			{},
		}
		setpoint.For[*corev1.ConfigMap](r.m, "failing").
			Reconcile(func(context.Context, *corev1.ConfigMap) (setpoint.Result, error) {
				at = append(at, time.Since(start))
				if len(at) > len(answers) {
					return setpoint.Result{}, nil
				}
				return answers[len(at)-1].result, answers[len(at)-1].err
			})
		r.start()
		settle(time.Hour)
		ms := time.Millisecond
		want := []time.Duration{0, 5 * ms, 15 * ms, 35 * ms, 1035 * ms, 1040 * ms, 1050 * ms}
		if !slices.Equal(at, want) {
			t.Errorf("reconciled at %v, want %v", at, want)
		}
	})
}

// A terminal error waits for the next change, which runs at once.
func TestLaw9TerminalErrorWaitsForAChange(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps)
		apitest.Put(server, configMap("default", "a"))
		r := newRig(t, server)
		n := 0
		setpoint.For[*corev1.ConfigMap](r.m, "invalid").
			Reconcile(func(context.Context, *corev1.ConfigMap) (setpoint.Result, error) {
				n++
				return setpoint.Result{RequeueAfter: time.Second}, setpoint.Terminal(errors.New("no such size"))
			})
		r.start()
		settle(time.Hour)
		if n != 1 {
			t.Errorf("%d reconciles, want 1", n)
		}
		changed := configMap("default", "a")
		changed.Data = map[string]string{"v": "2"}
		apitest.Put(server, changed)
		synctest.Wait()
		if n != 2 {
			t.Errorf("%d reconciles after a change, want 2", n)
		}
	})
}

// A kind that is forbidden or missing stops its own controller and no other,
// is named in /readyz and heals when it arrives.
func TestLaw11StuckControllerIsNamedAndHeals(t *testing.T) {
	deployments := "Deployment.apps"
	for name, test := range map[string]struct {
		breakIt func(*apitest.Server)
		mend    func(*apitest.Server)
	}{
		"forbidden": {
			breakIt: func(s *apitest.Server) {
				s.Serve(apitest.Deployments)
				s.Intercept(func(q apitest.Request) error {
					if q.Resource == "deployments" {
						return apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "deployments"}, "", errors.New("no role"))
					}
					return nil
				})
			},
			mend: func(s *apitest.Server) { s.Intercept(nil) },
		},
		"missing": {
			breakIt: func(*apitest.Server) {},
			mend:    func(s *apitest.Server) { s.Serve(apitest.Deployments) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				server := apitest.New(apitest.ConfigMaps, apitest.Secrets)
				test.breakIt(server)
				apitest.Put(server, configMap("default", "a"))
				r := newRig(t, server)
				ran := &calls{}
				count := func(name string) func(context.Context, *corev1.ConfigMap) (setpoint.Result, error) {
					return func(context.Context, *corev1.ConfigMap) (setpoint.Result, error) {
						ran.add(name)
						return setpoint.Result{}, nil
					}
				}
				setpoint.For[*corev1.ConfigMap](r.m, "healthy").Owns(&corev1.Secret{}).Reconcile(count("healthy"))
				setpoint.For[*corev1.ConfigMap](r.m, "broken").Owns(metadataOf("apps/v1", "Deployment")).Reconcile(count("broken"))
				r.start()
				settle(10 * time.Minute)
				if ran.of("healthy") != 1 || ran.of("broken") != 0 {
					t.Errorf("healthy ran %d times, broken %d; want 1 and 0", ran.of("healthy"), ran.of("broken"))
				}
				code, body := r.get("/readyz")
				if code != 503 || !strings.Contains(body, "[-]broken failed: Owns "+deployments) || !strings.Contains(body, "[+]healthy ok") {
					t.Errorf("/readyz %d: %s", code, body)
				}
				if !strings.Contains(r.logs.String(), "controller not started") {
					t.Error("the log does not say that a controller did not start")
				}
				test.mend(server)
				settle(10 * time.Minute)
				if ran.of("broken") != 1 {
					t.Errorf("broken ran %d times after it was mended, want 1", ran.of("broken"))
				}
				if code, body := r.get("/readyz?verbose"); code != 200 {
					t.Errorf("/readyz %d: %s", code, body)
				}
			})
		})
	}
}

// A controller whose kind may be missing is idle without it, which is no reason not to be ready, and starts when it comes.
func TestLaw11OptionalKind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps)
		r := newRig(t, server)
		ran := &calls{}
		setpoint.For[*appsv1.Deployment](r.m, "optional").Optional().Watches(&corev1.ConfigMap{}, toConfigMap("a")).
			Reconcile(func(_ context.Context, d *appsv1.Deployment) (setpoint.Result, error) {
				ran.add(d.Name)
				return setpoint.Result{}, nil
			})
		r.start()
		settle(10 * time.Minute)
		code, body := r.get("/readyz?verbose")
		if code != 200 || !strings.Contains(body, "[+]optional ok: idle: For Deployment.apps: waiting for the first listing: ") {
			t.Errorf("/readyz %d: %s", code, body)
		}
		if log := r.logs.String(); strings.Contains(log, "controller not started") {
			t.Errorf("log:\n%s", log)
		}
		server.Serve(apitest.Deployments)
		apitest.Put(server, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "late"}})
		settle(10 * time.Minute)
		if code, body := r.get("/readyz?verbose"); code != 200 || !strings.Contains(body, "[+]optional ok\n") || ran.of("late") != 1 {
			t.Errorf("it ran %d times; /readyz %d: %s", ran.of("late"), code, body)
		}
	})
}

// The causes of a reconcile merge while the key waits, and reach the context
// and the log.
func TestLaw12CausesMerge(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps, apitest.Secrets)
		r := newRig(t, server)
		var causes [][]queue.Cause
		setpoint.For[*corev1.ConfigMap](r.m, "why").
			Watches(&corev1.Secret{}, toConfigMap("a")).
			Reconcile(func(ctx context.Context, _ *corev1.ConfigMap) (setpoint.Result, error) {
				causes = append(causes, setpoint.Causes(ctx))
				time.Sleep(time.Second)
				return setpoint.Result{}, nil
			})
		r.start()
		apitest.Put(server, configMap("default", "a"))
		synctest.Wait()
		for _, v := range []string{"1", "2", "3"} {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}}
			secret.StringData = map[string]string{"v": v}
			apitest.Put(server, secret)
			synctest.Wait()
		}
		server.Delete(configMap("default", "b"))
		settle(time.Minute)
		if len(causes) != 2 {
			t.Fatalf("%d reconciles, want 2", len(causes))
		}
		var got []string
		for _, c := range causes[1] {
			got = append(got, strings.Join([]string{c.Source, c.Kind, c.Object, c.Verb, string(rune('0' + c.Count))}, " "))
		}
		want := []string{"Watches Secret default/s added 1", "Watches Secret default/s modified 2"}
		if !slices.Equal(got, want) {
			t.Errorf("causes %q, want %q", got, want)
		}
		if log := r.logs.String(); !strings.Contains(log, `causes="[Watches Secret default/s added Watches Secret default/s modified (2 times)]"`) {
			t.Errorf("the log does not show the causes:\n%s", log)
		}
	})
}

// When the manager stops, no new reconcile starts, running ones end within
// their grace and undisturbed, and nothing is left.
func TestLaw14StopIsClean(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps)
		apitest.Put(server, configMap("default", "a"))
		apitest.Put(server, configMap("default", "b"))
		r := newRig(t, server)
		ran := &calls{}
		setpoint.For[*corev1.ConfigMap](r.m, "slow").
			Reconcile(func(ctx context.Context, cm *corev1.ConfigMap) (setpoint.Result, error) {
				ran.add("started")
				time.Sleep(20 * time.Second)
				if ctx.Err() != nil {
					t.Errorf("the context ended within the grace period: %v", context.Cause(ctx))
				}
				return setpoint.Result{}, r.m.Client().Create(ctx, configMap("other", cm.Name))
			})
		r.start()
		stopped := time.Now()
		if err := r.end(); err != nil {
			t.Errorf("Run: %v", err)
		}
		if took := time.Since(stopped); took != 20*time.Second {
			t.Errorf("stopping took %v, want the 20 s that the reconcile needed", took)
		}
		if n := ran.of("started"); n != 1 {
			t.Errorf("%d reconciles started, want 1", n)
		}
		if n := server.Count(apitest.ConfigMaps); n != 3 {
			t.Errorf("%d objects, want 3: the running reconcile may write", n)
		}
	})
}

// A reconcile that outlives its grace is cancelled; one that ignores that, too,
// is named in Run's error.
func TestLaw14StopHasAnEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps)
		apitest.Put(server, configMap("default", "deaf"))
		apitest.Put(server, configMap("default", "patient"))
		r := newRig(t, server, func(c *setpoint.Config) { c.GracePeriod = time.Minute })
		release := make(chan struct{})
		var cancelled time.Duration
		start := time.Now()
		setpoint.For[*corev1.ConfigMap](r.m, "slow").Workers(2).
			Reconcile(func(ctx context.Context, cm *corev1.ConfigMap) (setpoint.Result, error) {
				if cm.Name == "deaf" {
					<-release
					return setpoint.Result{}, nil
				}
				<-ctx.Done()
				cancelled = time.Since(start)
				return setpoint.Result{}, ctx.Err()
			})
		r.start()
		err := r.end()
		if err == nil || !strings.Contains(err.Error(), "default/deaf by controller slow") || strings.Contains(err.Error(), "patient") {
			t.Errorf("Run: %v, want an error that names default/deaf alone", err)
		}
		if cancelled != time.Minute {
			t.Errorf("the context ended after %v, want %v", cancelled, time.Minute)
		}
		if log := r.logs.String(); !strings.Contains(log, "reconcile interrupted") || strings.Contains(log, "level=ERROR") {
			t.Errorf("an interrupted reconcile is no error:\n%s", log)
		}
		close(release)
	})
}

// Nobody starves: what just changed goes before what was found by listing, which
// still runs when its slack is over, although fresh changes never end; and
// namespaces take turns, so that a small one does not wait for a large one.
func TestLaw10NobodyStarves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps)
		for i := range 100 {
			apitest.Put(server, configMap("crowd", fmt.Sprint(i)))
		}
		apitest.Put(server, configMap("quiet", "a"))
		r := newRig(t, server)
		start := time.Now()
		var order []string
		done := map[string]time.Duration{} // when the last object of a namespace ran
		setpoint.For[*corev1.ConfigMap](r.m, "busy").
			Reconcile(func(_ context.Context, cm *corev1.ConfigMap) (setpoint.Result, error) {
				order = append(order, cm.Namespace)
				done[cm.Namespace] = time.Since(start)
				if cm.Namespace == "noise" { // the next change is there before this one is done
					apitest.Put(server, configMap("noise", fmt.Sprint(len(order))))
				}
				time.Sleep(time.Second)
				return setpoint.Result{}, nil
			})
		r.start()
		apitest.Put(server, configMap("noise", "a"))
		apitest.Put(server, configMap("noise", "b"))
		settle(10 * time.Minute)
		if want := []string{"crowd", "noise", "noise"}; !slices.Equal(order[:3], want) {
			t.Errorf("began with %q, want %q: a fresh change goes before a listing", order[:3], want)
		}
		// A minute of slack, then one turn of three; of the crowd, one turn of two.
		if at := done["quiet"]; at < 50*time.Second || at > 65*time.Second {
			t.Errorf("the quiet namespace ran after %v, want its turn soon after a minute", at)
		}
		if at := done["crowd"]; at > 5*time.Minute {
			t.Errorf("the crowd was done after %v, want a turn of two after a minute", at)
		}
		t.Logf("quiet after %v, the crowd after %v", done["quiet"], done["crowd"])
	})
}
