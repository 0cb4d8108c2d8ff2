package setpoint_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/filter"
	"github.com/setpoint-dev/setpoint/internal/apitest"
)

// never is a filter that lets nothing pass.
func never(filter.Change) bool { return false }

// The object form of a reconciler works for typed, unstructured and
// metadata-only objects alike.
func TestObjectForms(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps)
		cm := configMap("default", "a")
		cm.Data = map[string]string{"v": "1"}
		apitest.Put(server, cm)
		r := newRig(t, server)
		kind := apitest.ConfigMaps.GroupVersionKind
		got := &calls{}
		setpoint.For[*corev1.ConfigMap](r.m, "typed").
			Reconcile(func(_ context.Context, o *corev1.ConfigMap) (setpoint.Result, error) {
				got.add("typed " + o.Data["v"])
				return setpoint.Result{}, nil
			})
		setpoint.For[*unstructured.Unstructured](r.m, "unstructured").Kind(kind).
			Reconcile(func(_ context.Context, o *unstructured.Unstructured) (setpoint.Result, error) {
				v, _, err := unstructured.NestedString(o.Object, "data", "v")
				got.add("unstructured " + v)
				return setpoint.Result{}, err
			})
		setpoint.For[*metav1.PartialObjectMetadata](r.m, "metadata").Kind(kind).
			Reconcile(func(_ context.Context, o *metav1.PartialObjectMetadata) (setpoint.Result, error) {
				got.add("metadata " + o.Name)
				return setpoint.Result{}, nil
			})
		r.start()
		settle(time.Second)
		for _, want := range []string{"metadata a", "typed 1", "unstructured 1"} {
			if got.of(want) != 1 {
				t.Errorf("%q was seen %d times, want once\n%s", want, got.of(want), r.logs)
			}
		}
		lists := 0
		for _, q := range server.Requests() {
			if q.Verb == "watch" || q.Verb == "list" {
				lists++
			}
		}
		if lists != 1 {
			t.Errorf("%d watches of one kind, want 1 for all forms", lists)
		}
	})
}

// The object form is called while an object is being deleted and not once it is
// gone; then the key's failures are forgotten.
func TestObjectFormAndDeletion(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps)
		cm := configMap("default", "a")
		cm.Finalizers = []string{"example.com/f"}
		apitest.Put(server, cm)
		r := newRig(t, server)
		var got []string
		setpoint.For[*corev1.ConfigMap](r.m, "deleting").When(never).
			Reconcile(func(_ context.Context, o *corev1.ConfigMap) (setpoint.Result, error) {
				got = append(got, fmt.Sprintf("deleting=%v", o.DeletionTimestamp != nil))
				return setpoint.Result{}, errors.New("not yet")
			})
		r.start()
		settle(time.Minute)
		if len(got) != 0 {
			t.Fatalf("the filter let %q pass", got)
		}
		server.Delete(cm)
		settle(100 * time.Millisecond)
		cm.Finalizers = nil
		apitest.Put(server, cm)
		settle(time.Hour)
		for _, s := range got {
			if s != "deleting=true" {
				t.Errorf("reconciled with %s", s)
			}
		}
		if n := len(got); n != 5 { // at 0, 5, 15, 35, 75 ms
			t.Errorf("%d reconciles, want 5", n)
		}
		// The next object of that name begins with a back-off of its own.
		got = nil
		cm.Finalizers = []string{"example.com/f"}
		apitest.Put(server, cm)
		server.Delete(cm)
		settle(100 * time.Millisecond)
		if n := len(got); n != 5 {
			t.Errorf("%d reconciles of the next object in 100 ms, want 5", n)
		}
	})
}

// When filters the primary objects alone.
func TestWhenFiltersThePrimaryAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps, apitest.Secrets)
		apitest.Put(server, configMap("default", "a"))
		r := newRig(t, server)
		ran := &calls{}
		setpoint.For[*corev1.ConfigMap](r.m, "filtered").
			When(never).
			Watches(&corev1.Secret{}, toConfigMap("a"), filter.Names("yes")).
			Reconcile(func(_ context.Context, o *corev1.ConfigMap) (setpoint.Result, error) {
				ran.add(o.Name)
				return setpoint.Result{}, nil
			})
		r.start()
		settle(time.Second)
		for i, step := range []struct {
			do   func()
			want int
		}{
			{func() {}, 0},
			{func() { apitest.Put(server, secret("no")) }, 0},
			{func() { apitest.Put(server, secret("yes")) }, 1},
			{func() { server.Delete(secret("no")) }, 2}, // deletions always pass
		} {
			step.do()
			settle(time.Second)
			if n := ran.of("a"); n != step.want {
				t.Errorf("step %d: %d reconciles, want %d", i, n, step.want)
			}
		}
	})
}

// A change of a watched object is mapped with its old and its new state, in the
// form that was asked for.
func TestWatchesMapsOldAndNew(t *testing.T) {
	for name, form := range map[string]client.Object{
		"typed":        &corev1.Secret{},
		"metadata":     metadataOf("v1", "Secret"),
		"unstructured": &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				server := apitest.New(apitest.ConfigMaps, apitest.Secrets)
				apitest.Put(server, configMap("default", "a"))
				apitest.Put(server, configMap("default", "b"))
				r := newRig(t, server)
				ran := &calls{}
				setpoint.For[*corev1.ConfigMap](r.m, "mapped").When(never).
					Watches(form, func(_ context.Context, o client.Object) []setpoint.Request {
						if fmt.Sprintf("%T", o) != fmt.Sprintf("%T", form) {
							t.Errorf("mapped a %T, want a %T", o, form)
						}
						return []setpoint.Request{{Namespace: "default", Name: o.GetLabels()["for"]}}
					}).
					Reconcile(func(_ context.Context, o *corev1.ConfigMap) (setpoint.Result, error) {
						ran.add(o.Name)
						return setpoint.Result{}, nil
					})
				r.start()
				s := secret("s")
				s.Labels = map[string]string{"for": "a"}
				apitest.Put(server, s)
				settle(time.Second)
				s.Labels = map[string]string{"for": "b"}
				apitest.Put(server, s)
				settle(time.Second)
				if ran.of("a") != 2 || ran.of("b") != 1 {
					t.Errorf("a ran %d times, b %d; want 2 and 1\n%s", ran.of("a"), ran.of("b"), r.logs)
				}
			})
		})
	}
}

// An object that gets another owner wakes both.
func TestOwnsWakesOldAndNewOwner(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps, apitest.Secrets)
		a, b := apitest.Put(server, configMap("default", "a")), apitest.Put(server, configMap("default", "b"))
		r := newRig(t, server)
		ran := &calls{}
		setpoint.For[*corev1.ConfigMap](r.m, "owners").When(never).Owns(&corev1.Secret{}).
			Reconcile(func(_ context.Context, o *corev1.ConfigMap) (setpoint.Result, error) {
				ran.add(o.Name)
				return setpoint.Result{}, nil
			})
		r.start()
		yes := true
		for _, owner := range []*corev1.ConfigMap{a, b} {
			s := secret("s")
			s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, Controller: &yes}}
			apitest.Put(server, s)
			settle(time.Second)
		}
		if ran.of("a") != 2 || ran.of("b") != 1 {
			t.Errorf("a ran %d times, b %d; want 2 and 1", ran.of("a"), ran.of("b"))
		}
	})
}

// The key form is called for objects that do not exist, too.
func TestKeyForm(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps)
		apitest.Put(server, configMap("default", "a"))
		r := newRig(t, server)
		var got []string
		setpoint.For[*corev1.ConfigMap](r.m, "keys").
			ReconcileRequest(setpoint.ReconcilerFunc(func(ctx context.Context, req setpoint.Request) (setpoint.Result, error) {
				got = append(got, req.String()+" "+setpoint.Causes(ctx)[0].Verb)
				return setpoint.Result{}, nil
			}))
		r.start()
		settle(time.Second)
		server.Delete(configMap("default", "a"))
		settle(time.Second)
		if want := []string{"default/a added", "default/a deleted"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// Channels and functions are sources, too, and their name is in the causes.
func TestExternalSources(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps)
		apitest.Put(server, configMap("default", "a"))
		r := newRig(t, server)
		ch := make(chan setpoint.Request)
		var got []string
		setpoint.For[*corev1.ConfigMap](r.m, "fed").When(never).
			Source("bell", setpoint.Channel(ch)).
			Source("clock", func(_ context.Context, add func(setpoint.Request)) error {
				add(setpoint.Request{Namespace: "default", Name: "a"})
				return nil
			}).
			Reconcile(func(ctx context.Context, o *corev1.ConfigMap) (setpoint.Result, error) {
				got = append(got, setpoint.Causes(ctx)[0].Source)
				return setpoint.Result{}, nil
			})
		r.start()
		ch <- setpoint.Request{Namespace: "default", Name: "a"}
		settle(time.Second)
		if want := []string{"clock", "bell"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// A panic costs its reconcile and is logged with the stack, counted, and tried
// again; so is one of a map function, which cannot be tried again.
func TestPanicsAreErrors(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps, apitest.Secrets)
		apitest.Put(server, configMap("default", "a"))
		r := newRig(t, server)
		n := 0
		setpoint.For[*corev1.ConfigMap](r.m, "panics").
			Watches(&corev1.Secret{}, func(context.Context, client.Object) []setpoint.Request { panic("in map") }).
			Reconcile(func(context.Context, *corev1.ConfigMap) (setpoint.Result, error) {
				if n++; n == 1 {
					panic("in reconcile")
				}
				return setpoint.Result{}, nil
			})
		r.start()
		apitest.Put(server, secret("s"))
		settle(time.Second)
		if n != 2 {
			t.Errorf("%d reconciles, want 2", n)
		}
		log := r.logs.String()
		for _, want := range []string{`error="panic: in reconcile"`, `error="panic: in map"`, "controller_test.go"} {
			if !strings.Contains(log, want) {
				t.Errorf("the log lacks %q:\n%s", want, log)
			}
		}
		if got := r.metric("controller_runtime_reconcile_panics_total"); got != `controller_runtime_reconcile_panics_total{controller="panics"} 2` {
			t.Error(got)
		}
	})
}

// A reconcile with a timeout gets a deadline, and that it passed is counted.
func TestTimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps)
		apitest.Put(server, configMap("default", "a"))
		r := newRig(t, server)
		var took []time.Duration
		setpoint.For[*corev1.ConfigMap](r.m, "timed").Timeout(time.Minute).
			Reconcile(func(ctx context.Context, _ *corev1.ConfigMap) (setpoint.Result, error) {
				if len(took) > 0 {
					return setpoint.Result{}, nil
				}
				start := time.Now()
				<-ctx.Done()
				took = append(took, time.Since(start))
				return setpoint.Result{}, ctx.Err()
			})
		r.start()
		settle(time.Hour)
		if want := []time.Duration{time.Minute}; !slices.Equal(took, want) {
			t.Errorf("ended after %v, want %v", took, want)
		}
		if got := r.metric("controller_runtime_reconcile_timeouts_total"); got != `controller_runtime_reconcile_timeouts_total{controller="timed"} 1` {
			t.Error(got)
		}
	})
}

// A write conflict is tried again like an error, but is none in the log.
func TestConflictIsNoErrorInTheLog(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps)
		apitest.Put(server, configMap("default", "a"))
		r := newRig(t, server)
		n := 0
		setpoint.For[*corev1.ConfigMap](r.m, "conflicting").
			Reconcile(func(ctx context.Context, o *corev1.ConfigMap) (setpoint.Result, error) {
				n++
				if n == 1 {
					changed := configMap("default", "a")
					changed.Data = map[string]string{"by": "another"}
					apitest.Put(server, changed)
				}
				o.Labels = map[string]string{"mine": "yes"}
				return setpoint.Result{}, r.m.Client().Update(ctx, o)
			})
		r.start()
		settle(time.Hour)
		var stored corev1.ConfigMap
		stored.Namespace, stored.Name = "default", "a"
		server.Get(&stored)
		if stored.Labels["mine"] != "yes" || stored.Data["by"] != "another" {
			t.Errorf("stored %v %v, want both changes", stored.Labels, stored.Data)
		}
		log := r.logs.String()
		if !strings.Contains(log, "level=INFO msg=\"reconcile met a write conflict, trying again\"") || strings.Contains(log, "level=ERROR") {
			t.Errorf("log:\n%s", log)
		}
	})
}

// Concurrency bounds the reconciles of all controllers together.
func TestConcurrencyOverAllControllers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps)
		for _, name := range []string{"a", "b", "c", "d"} {
			apitest.Put(server, configMap("default", name))
		}
		r := newRig(t, server, func(c *setpoint.Config) { c.Concurrency = 3 })
		var now, most, all atomic.Int32
		for _, name := range []string{"one", "two"} {
			setpoint.For[*corev1.ConfigMap](r.m, name).Workers(4).
				Reconcile(func(context.Context, *corev1.ConfigMap) (setpoint.Result, error) {
					most.Store(max(most.Load(), now.Add(1)))
					all.Add(1)
					time.Sleep(time.Second)
					now.Add(-1)
					return setpoint.Result{}, nil
				})
		}
		r.start()
		settle(time.Minute)
		if most.Load() != 3 || all.Load() != 8 {
			t.Errorf("%d at once of %d, want 3 of 8", most.Load(), all.Load())
		}
	})
}

// A reconcile that waits for its turn when the lease is lost is not lost with it.
func TestLostLeaseKeepsWaitingReconciles(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps, apitest.Leases)
		for _, name := range []string{"a", "b"} {
			apitest.Put(server, configMap("default", name))
		}
		r := newRig(t, server, elected("a"), func(c *setpoint.Config) { c.Concurrency = 1 })
		ran := &calls{}
		setpoint.For[*corev1.ConfigMap](r.m, "slow").Workers(2).
			Source("once", func(ctx context.Context, add func(setpoint.Request)) error {
				add(setpoint.Request{Namespace: "elsewhere", Name: "c"})
				return nil
			}).
			ReconcileRequest(setpoint.ReconcilerFunc(func(ctx context.Context, req setpoint.Request) (setpoint.Result, error) {
				if ran.add(req.Name) == 1 {
					<-ctx.Done()
				}
				return setpoint.Result{}, ctx.Err()
			}))
		r.start()
		for range 3 {
			settle(time.Minute)
			server.Intercept(func(q apitest.Request) error {
				if q.Resource == "leases" {
					return errors.New("unreachable")
				}
				return nil
			})
			settle(time.Minute)
			server.Intercept(nil)
		}
		settle(time.Minute)
		if n := ran.of("c"); n != 2 {
			t.Errorf("c ran %d times, want 2: once interrupted, once to its end", n)
		}
	})
}

// An object with the annotation is left alone, whatever happens to it, until the
// annotation is gone; then it is reconciled at once.
func TestPausedObject(t *testing.T) {
	for _, form := range []string{"object", "key"} {
		t.Run(form, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				server := apitest.New(apitest.ConfigMaps)
				cm := configMap("default", "a")
				cm.Annotations = map[string]string{setpoint.PausedAnnotation: "true"}
				apitest.Put(server, cm)
				r := newRig(t, server)
				n := 0
				b := setpoint.For[*corev1.ConfigMap](r.m, "paused").When(filter.GenerationChanged)
				if form == "object" {
					b.Reconcile(func(context.Context, *corev1.ConfigMap) (setpoint.Result, error) {
						n++
						return setpoint.Result{}, nil
					})
				} else {
					b.ReconcileRequest(setpoint.ReconcilerFunc(func(context.Context, setpoint.Request) (setpoint.Result, error) {
						n++
						return setpoint.Result{}, nil
					}))
				}
				r.start()
				cm.Data = map[string]string{"v": "2"}
				apitest.Put(server, cm)
				settle(time.Hour)
				if n != 0 {
					t.Errorf("reconciled %d times while paused", n)
				}
				cm.Annotations = nil
				apitest.Put(server, cm)
				synctest.Wait()
				if n != 1 {
					t.Errorf("reconciled %d times when resumed, want 1", n)
				}
			})
		})
	}
}

// A paused controller collects changes and works them off when it is resumed.
func TestPausedController(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps)
		r := newRig(t, server)
		ran := &calls{}
		c := setpoint.For[*corev1.ConfigMap](r.m, "paused").
			Reconcile(func(_ context.Context, o *corev1.ConfigMap) (setpoint.Result, error) {
				ran.add(o.Name)
				return setpoint.Result{}, nil
			})
		c.Pause()
		r.start()
		for range 2 {
			apitest.Put(server, configMap("default", "a"))
			apitest.Put(server, configMap("default", "b"))
			settle(time.Hour)
		}
		if ran.of("a")+ran.of("b") != 0 {
			t.Error("reconciled while paused")
		}
		c.Resume()
		synctest.Wait()
		if ran.of("a") != 1 || ran.of("b") != 1 {
			t.Errorf("a ran %d times, b %d; want 1 and 1", ran.of("a"), ran.of("b"))
		}

		// Workers that wait for a key heed a pause, too.
		c.Pause()
		apitest.Put(server, configMap("default", "c"))
		settle(time.Hour)
		if ran.of("c") != 0 {
			t.Error("reconciled while paused again")
		}
		c.Resume()
		synctest.Wait()
		if ran.of("c") != 1 {
			t.Errorf("c ran %d times, want once", ran.of("c"))
		}
	})
}

// A dry run logs the writes that it does not do.
func TestDryRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps, apitest.Secrets, apitest.Events)
		apitest.Put(server, configMap("default", "a"))
		r := newRig(t, server, func(c *setpoint.Config) { c.DryRun = true })
		setpoint.For[*corev1.ConfigMap](r.m, "dry").
			Reconcile(func(ctx context.Context, o *corev1.ConfigMap) (setpoint.Result, error) {
				r.m.Events("dry").Eventf(o, "Normal", "Made", "Make", "made a secret")
				return setpoint.Result{}, r.m.Client().Create(ctx, secret("s"))
			})
		r.start()
		settle(time.Hour)
		if n := server.Count(apitest.Secrets) + server.Count(apitest.Events); n != 0 {
			t.Errorf("%d objects were written", n)
		}
		if log := r.logs.String(); !strings.Contains(log, `msg="dry run: write not sent" controller=dry object=default/a`) ||
			!strings.Contains(log, "verb=create resource=\"/v1, Resource=secrets\"") || strings.Contains(log, "level=ERROR") {
			t.Errorf("log:\n%s", log)
		}
	})
}

// A reconcile that runs for much longer than its timeout is reported with its
// stack, in the metrics and by liveness.
func TestStuckReconcileIsReported(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps)
		apitest.Put(server, configMap("default", "a"))
		r := newRig(t, server)
		release := make(chan struct{})
		setpoint.For[*corev1.ConfigMap](r.m, "stuck").Timeout(time.Minute).
			Reconcile(func(context.Context, *corev1.ConfigMap) (setpoint.Result, error) {
				waitForEver(release)
				return setpoint.Result{}, nil
			})
		r.start()
		settle(time.Minute)
		if code, body := r.get("/healthz"); code != 200 {
			t.Errorf("/healthz %d within patience: %s", code, body)
		}
		settle(10 * time.Minute)
		log := r.logs.String()
		if n := strings.Count(log, "a reconcile is stuck"); n < 2 || n > 4 {
			t.Errorf("%d reports, want one and another for each doubling", n)
		}
		if !strings.Contains(log, "waitForEver") {
			t.Errorf("the stack is missing:\n%s", log)
		}
		if code, body := r.get("/healthz"); code != 503 || !strings.Contains(body, "[-]stuck failed: all 1 workers") {
			t.Errorf("/healthz %d: %s", code, body)
		}
		if got := r.metric("setpoint_stuck_reconciles"); got != `setpoint_stuck_reconciles{controller="stuck"} 1` {
			t.Error(got)
		}
		close(release)
		settle(time.Minute)
		if code, body := r.get("/healthz"); code != 200 {
			t.Errorf("/healthz %d when it went on: %s", code, body)
		}
	})
}

//go:noinline
func waitForEver(release chan struct{}) { <-release }
