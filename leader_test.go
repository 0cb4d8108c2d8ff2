package setpoint_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/internal/apitest"
	"github.com/setpoint-dev/setpoint/lease"
)

// elected makes a rig a replica of that name.
func elected(name string) func(*setpoint.Config) {
	return func(c *setpoint.Config) {
		c.LeaderElection = &lease.Config{Namespace: "default", Identity: name}
		c.REST.UserAgent = name
	}
}

// counting declares a controller that counts its reconciles and answers result.
func (r *rig) counting(ran *calls, result setpoint.Result) {
	setpoint.For[*corev1.ConfigMap](r.m, "counting").
		Reconcile(func(_ context.Context, o *corev1.ConfigMap) (setpoint.Result, error) {
			ran.add(o.Name)
			return result, nil
		})
}

// A standby does not reconcile but has everything ready: it goes to work within
// a retry period after the leader stopped, without listing anything.
func TestStandbyIsWarm(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps, apitest.Leases)
		apitest.Put(server, configMap("default", "a"))
		a, b := newRig(t, server, elected("a")), newRig(t, server, elected("b"))
		ranA, ranB := &calls{}, &calls{}
		a.counting(ranA, setpoint.Result{})
		b.counting(ranB, setpoint.Result{})
		a.start()
		b.start()
		settle(time.Minute)
		if ranA.of("a") != 1 || ranB.of("a") != 0 {
			t.Fatalf("the leader ran %d times, the standby %d; want 1 and 0", ranA.of("a"), ranB.of("a"))
		}
		if code, body := b.get("/readyz?verbose"); code != 200 || !strings.Contains(body, "[+]leader-election ok: standby of a") {
			t.Errorf("/readyz of the standby %d: %s", code, body)
		}
		if got := a.metric("leader_election_master_status"); got != `leader_election_master_status{name="test"} 1` {
			t.Error(got)
		}
		server.Requests()
		if err := a.end(); err != nil {
			t.Errorf("Run: %v", err)
		}
		settle(2400 * time.Millisecond)
		if ranB.of("a") != 1 {
			t.Errorf("the standby ran %d times after the leader stopped, want 1", ranB.of("a"))
		}
		for _, q := range server.Requests() {
			if q.Resource != "leases" {
				t.Errorf("taking over needed: %v", q)
			}
		}
	})
}

// What a replica planned for later is not lost when another one takes over and
// the first one comes back.
func TestTakeOverReconcilesEverything(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps, apitest.Leases)
		apitest.Put(server, configMap("default", "a"))
		r := newRig(t, server, elected("a"))
		ran := &calls{}
		r.counting(ran, setpoint.Result{})
		r.start()
		settle(time.Minute)
		server.Intercept(func(q apitest.Request) error {
			if q.Resource == "leases" {
				return errors.New("unreachable")
			}
			return nil
		})
		settle(time.Minute)
		if r.m.Leading() {
			t.Fatal("still leading without a lease")
		}
		server.Intercept(nil)
		settle(time.Minute)
		if !r.m.Leading() || ran.of("a") != 2 {
			t.Errorf("leading: %v after %d reconciles, want true and 2", r.m.Leading(), ran.of("a"))
		}
	})
}

// When the lease is lost, running reconciles are cancelled and awaited before
// the replica campaigns again, and none of their writes leaves any more.
func TestLostLeaseCancelsAndFences(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps, apitest.Secrets, apitest.Leases)
		apitest.Put(server, configMap("default", "a"))
		r := newRig(t, server, elected("a"))
		var cause, write error
		var cut, cancelled time.Time
		runnable := 0
		r.m.Add(setpoint.Runnable{Name: "side", Run: func(ctx context.Context) error {
			runnable++
			<-ctx.Done()
			return nil
		}})
		setpoint.For[*corev1.ConfigMap](r.m, "slow").
			Reconcile(func(ctx context.Context, _ *corev1.ConfigMap) (setpoint.Result, error) {
				if cause != nil {
					return setpoint.Result{}, nil
				}
				<-ctx.Done()
				cause, cancelled = context.Cause(ctx), time.Now()
				// One that does not heed its context, but keeps its values.
				write = r.m.Client().Create(context.WithoutCancel(ctx), secret("late"))
				return setpoint.Result{}, ctx.Err()
			})
		r.start()
		settle(time.Minute)
		cut = time.Now()
		server.Intercept(func(q apitest.Request) error {
			if q.Resource == "leases" {
				return errors.New("unreachable")
			}
			return nil
		})
		settle(time.Minute)
		if took := cancelled.Sub(cut); !errors.Is(cause, lease.ErrLost) || took > lease.DefaultRenewDeadline {
			t.Errorf("the reconcile ended by %v after %v, want %v within %v", cause, took, lease.ErrLost, lease.DefaultRenewDeadline)
		}
		if write == nil || !strings.Contains(write.Error(), "the lease is not held") || server.Count(apitest.Secrets) != 0 {
			t.Errorf("a late write: %v, %d secrets", write, server.Count(apitest.Secrets))
		}
		server.Intercept(nil)
		settle(time.Minute)
		if runnable != 2 {
			t.Errorf("the runnable ran %d times, want once in each term", runnable)
		}
	})
}

// A reconcile that cannot be stopped when the lease is lost ends the manager:
// it must not lead again beside it.
func TestLostLeaseWithDeafReconcile(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps, apitest.Leases)
		apitest.Put(server, configMap("default", "a"))
		r := newRig(t, server, elected("a"))
		release := make(chan struct{})
		setpoint.For[*corev1.ConfigMap](r.m, "deaf").
			Reconcile(func(context.Context, *corev1.ConfigMap) (setpoint.Result, error) {
				<-release
				return setpoint.Result{}, nil
			})
		r.start()
		settle(time.Minute)
		server.Intercept(func(q apitest.Request) error {
			if q.Resource == "leases" {
				return fmt.Errorf("unreachable")
			}
			return nil
		})
		settle(time.Minute)
		err := r.end()
		if !errors.Is(err, lease.ErrNotDrained) || !strings.Contains(err.Error(), "default/a by controller deaf") {
			t.Errorf("Run: %v", err)
		}
		close(release)
	})
}

// Runnables run beside the controllers or, with Standby, everywhere; one that
// fails stops the manager.
func TestRunnables(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.Leases)
		a, b := newRig(t, server, elected("a")), newRig(t, server, elected("b"))
		ran := &calls{}
		for name, r := range map[string]*rig{"a": a, "b": b} {
			r.m.Add(setpoint.Runnable{Name: "leads", Run: func(ctx context.Context) error {
				ran.add(name + " leads")
				<-ctx.Done()
				return nil
			}})
			r.m.Add(setpoint.Runnable{Name: "everywhere", Standby: true, Run: func(ctx context.Context) error {
				ran.add(name + " everywhere")
				if name == "b" {
					time.Sleep(5 * time.Minute)
					return errors.New("worn out")
				}
				return nil
			}})
		}
		a.start()
		b.start()
		settle(time.Minute)
		for name, want := range map[string]int{"a leads": 1, "b leads": 0, "a everywhere": 1, "b everywhere": 1} {
			if n := ran.of(name); n != want {
				t.Errorf("%s: %d, want %d", name, n, want)
			}
		}
		settle(5 * time.Minute)
		if err := b.end(); err == nil || err.Error() != "runnable everywhere: worn out" {
			t.Errorf("Run: %v", err)
		}
	})
}

// A runnable that panics stops the manager; the log shows where.
func TestPanicOfARunnable(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, apitest.New())
		r.m.Add(setpoint.Runnable{Name: "fragile", Run: func(context.Context) error { panic("broken") }})
		r.start()
		if err := r.end(); err == nil || !strings.Contains(err.Error(), "runnable fragile: panic: broken") {
			t.Errorf("Run: %v", err)
		}
		if log := r.logs.String(); !strings.Contains(log, "leader_test.go") {
			t.Errorf("the log does not show the stack:\n%s", log)
		}
	})
}

// No reconcile begins at a moment at which the lease may be lost, even if nobody has noticed yet: after a sleep of the
// machine, which only the wall clock shows.
func TestNoReconcileUnlessSurelyHeld(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps, apitest.Leases)
		p := newProcess(t, server, "a", elects("a"))
		ran := &calls{}
		setpoint.For[*corev1.ConfigMap](p.m, "awake").
			Reconcile(func(_ context.Context, o *corev1.ConfigMap) (setpoint.Result, error) {
				ran.add(o.Name)
				return setpoint.Result{}, nil
			})
		p.start()
		settle(10*time.Second + 100*time.Millisecond)
		p.step(time.Hour)
		apitest.Put(server, configMap("default", "a"))
		settle(time.Millisecond)
		if n := ran.of("a"); n != 0 {
			t.Errorf("%d reconciles right after the sleep", n)
		}
		settle(time.Minute)
		if n := ran.of("a"); n != 1 {
			t.Errorf("%d reconciles once the lease is held again, want 1", n)
		}
		if err := p.end(); err != nil {
			t.Error(err)
		}
	})
}

// A request that is given up just when its shard is won runs, whether the
// take-over comes before or after: without an object nothing else would find it.
func TestRequestParkedWhileItsShardIsWon(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, apitest.New(apitest.ConfigMaps))
		ran := &calls{}
		c := setpoint.For[*corev1.ConfigMap](r.m, "keys").
			ReconcileRequest(setpoint.ReconcilerFunc(func(_ context.Context, req setpoint.Request) (setpoint.Result, error) {
				ran.add(req.Name)
				return setpoint.Result{}, nil
			}))
		setpoint.GiveUp(c, setpoint.Request{Namespace: "default", Name: "early"})
		r.start()
		settle(time.Second)
		setpoint.GiveUp(c, setpoint.Request{Namespace: "default", Name: "late"})
		settle(time.Second)
		if ran.of("early") != 1 || ran.of("late") != 1 {
			t.Errorf("given up before the start: ran %d times, while held: %d times, want 1 and 1", ran.of("early"), ran.of("late"))
		}
	})
}
