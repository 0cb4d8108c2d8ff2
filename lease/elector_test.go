package lease

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/setpoint-dev/setpoint/internal/apitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// replica is one of several electors for one lease, and what it leads.
type replica struct {
	*Elector
	t      *testing.T
	cancel context.CancelFunc
	done   chan error
	drain  time.Duration // that lead needs to stop
	err    error         // that lead returns

	mu    sync.Mutex
	terms int
	leads bool
	cause error
	ended time.Time
	logs  bytes.Buffer
}

// start runs a replica of that name until the test ends.
func start(t *testing.T, server *apitest.Server, name string, options ...func(*replica)) *replica {
	t.Helper()
	r := &replica{t: t, done: make(chan error, 1)}
	for _, option := range options {
		option(r)
	}
	rest := server.REST()
	rest.UserAgent = name
	client, err := coordinationclient.NewForConfig(rest)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := Config{Namespace: "default", Name: "work", Identity: name}.Complete()
	if err != nil {
		t.Fatal(err)
	}
	r.Elector, err = New(cfg, Options{Leases: client.Leases("default"), Logger: slog.New(slog.NewTextHandler(&r.logs, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go func() { r.done <- r.Run(ctx, r.lead) }()
	t.Cleanup(func() { r.stop() })
	synctest.Wait()
	return r
}

func (r *replica) stop() error {
	r.cancel()
	err := <-r.done
	r.done <- err
	return err
}

func (r *replica) lead(ctx context.Context) error {
	r.mu.Lock()
	r.terms++
	r.leads = true
	r.mu.Unlock()
	<-ctx.Done()
	r.mu.Lock()
	r.cause, r.ended = context.Cause(ctx), time.Now()
	r.mu.Unlock()
	time.Sleep(r.drain)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leads = false
	return r.err
}

func (r *replica) leading() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leads
}

// stored returns the lease as the server has it.
func stored(server *apitest.Server) *coordinationv1.Lease {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "work"}}
	server.Get(lease)
	return lease
}

func bubble(t *testing.T, test func(*testing.T, *apitest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, apitest.New(apitest.Leases)) })
}

// settle lets virtual time pass and waits until nothing moves.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// Of several replicas exactly one leads, and it goes on leading.
func TestOneLeads(t *testing.T) {
	bubble(t, func(t *testing.T, server *apitest.Server) {
		var replicas []*replica
		for i := range 5 {
			replicas = append(replicas, start(t, server, fmt.Sprint("r", i)))
		}
		for range 12 {
			settle(7 * time.Second)
			leaders := 0
			for _, r := range replicas {
				if r.leading() {
					leaders++
				}
			}
			if leaders != 1 || !replicas[0].leading() {
				t.Fatalf("%d leaders, want 1, the first", leaders)
			}
		}
		spec := stored(server).Spec
		if *spec.HolderIdentity != "r0" || *spec.LeaseDurationSeconds != 15 || *spec.LeaseTransitions != 0 {
			t.Errorf("lease %+v", spec)
		}
	})
}

// A clean stop drains, renewing meanwhile, and then releases, so that a standby
// takes over within a retry period.
func TestReleaseAfterDrain(t *testing.T) {
	bubble(t, func(t *testing.T, server *apitest.Server) {
		a := start(t, server, "a", func(r *replica) { r.drain = time.Minute })
		b := start(t, server, "b")
		settle(time.Minute)
		a.cancel()
		settle(59 * time.Second)
		if b.leading() || *stored(server).Spec.HolderIdentity != "a" {
			t.Error("the lease was given up before the work had drained")
		}
		settle(time.Second)
		if err := a.stop(); err != nil {
			t.Errorf("Run: %v", err)
		}
		settle(DefaultRetryPeriod)
		if !b.leading() {
			t.Error("the standby does not lead a retry period after the release")
		}
		if n := *stored(server).Spec.LeaseTransitions; n != 1 {
			t.Errorf("%d transitions, want 1", n)
		}
	})
}

// Work that could not be stopped keeps its lease, which then expires.
func TestUndrainedWorkLetsTheLeaseExpire(t *testing.T) {
	bubble(t, func(t *testing.T, server *apitest.Server) {
		a := start(t, server, "a", func(r *replica) { r.err = fmt.Errorf("%w: something", ErrNotDrained) })
		b := start(t, server, "b")
		settle(time.Minute)
		stopped := time.Now()
		if err := a.stop(); !errors.Is(err, ErrNotDrained) {
			t.Errorf("Run: %v, want ErrNotDrained", err)
		}
		for !b.leading() && time.Since(stopped) < time.Hour {
			settle(time.Second)
		}
		if took := time.Since(stopped); took < DefaultDuration-DefaultRetryPeriod || took > DefaultDuration+2*DefaultRetryPeriod {
			t.Errorf("the standby leads after %v, want about %v", took, DefaultDuration)
		}
	})
}

// A holder cut off from the server stops its work before anybody else can begin,
// and campaigns again afterwards.
func TestLostLeaseStopsBeforeAnotherStarts(t *testing.T) {
	bubble(t, func(t *testing.T, server *apitest.Server) {
		a := start(t, server, "a", func(r *replica) { r.drain = time.Second })
		b := start(t, server, "b")
		settle(time.Minute)
		server.Intercept(func(q apitest.Request) error {
			if q.UserAgent == "a" {
				return errors.New("unreachable")
			}
			return nil
		})
		cut := time.Now()
		for !b.leading() && time.Since(cut) < time.Hour {
			settle(100 * time.Millisecond)
			if a.leading() && b.leading() {
				t.Fatal("two lead at once")
			}
		}
		a.mu.Lock()
		if !errors.Is(a.cause, ErrLost) || a.ended.Sub(cut) > DefaultRenewDeadline {
			t.Errorf("the work of a ended by %v after %v, want %v within %v", a.cause, a.ended.Sub(cut), ErrLost, DefaultRenewDeadline)
		}
		a.mu.Unlock()
		if _, _, ok := a.Fence(time.Now()); ok {
			t.Error("a may still write")
		}
		server.Intercept(nil)
		settle(time.Minute)
		if a.leading() || !b.leading() {
			t.Error("a took the lease back from b")
		}
		b.stop()
		settle(10 * time.Second)
		if !a.leading() || a.terms != 2 {
			t.Errorf("a leads: %v, in its term %d; want true and 2", a.leading(), a.terms)
		}
	})
}

// Short trouble with the server is no loss.
func TestTroubleIsNoLoss(t *testing.T) {
	bubble(t, func(t *testing.T, server *apitest.Server) {
		a := start(t, server, "a")
		settle(time.Minute)
		server.Intercept(func(apitest.Request) error { return errors.New("busy") })
		settle(DefaultRenewDeadline - DefaultRetryPeriod - time.Second)
		server.Intercept(nil)
		settle(time.Minute)
		if !a.leading() || a.terms != 1 {
			t.Errorf("leading: %v, term %d; want true and 1", a.leading(), a.terms)
		}
		// Nor is a change of the object by somebody else.
		lease := stored(server)
		lease.Labels = map[string]string{"x": "y"}
		apitest.Put(server, lease)
		settle(time.Minute)
		if !a.leading() || a.terms != 1 || stored(server).Labels["x"] != "y" {
			t.Errorf("leading: %v, term %d, labels %v", a.leading(), a.terms, stored(server).Labels)
		}
	})
}

// A deleted or taken lease is a loss at once.
func TestDeletedLeaseIsLost(t *testing.T) {
	bubble(t, func(t *testing.T, server *apitest.Server) {
		a := start(t, server, "a")
		settle(time.Minute)
		server.Delete(stored(server))
		settle(time.Minute)
		if !a.leading() || a.terms != 2 || !errors.Is(a.cause, ErrLost) {
			t.Errorf("leading: %v, term %d, cause %v; want true, 2 and a loss", a.leading(), a.terms, a.cause)
		}
	})
}

// The fence of writes closes at RenewDeadline after the last renewal, by the
// monotonic clock or the wall clock.
func TestFence(t *testing.T) {
	bubble(t, func(t *testing.T, server *apitest.Server) {
		a := start(t, server, "a")
		now := time.Now()
		from, until, ok := a.Fence(now)
		if !ok || from.Sub(now) != DefaultRenewDeadline || until.Sub(now) != DefaultDuration {
			t.Errorf("fence %v %v %v", from.Sub(now), until.Sub(now), ok)
		}
		if _, _, ok := a.Fence(now.Add(DefaultRenewDeadline)); ok {
			t.Error("a write may start when the lease may be lost")
		}
		// A wall clock that jumped ahead while the monotonic one stood still, as
		// in a machine that slept.
		slept := now.Round(0).Add(DefaultRenewDeadline)
		if _, _, ok := a.Fence(slept); ok {
			t.Error("a write may start after a sleep of the machine")
		}
		a.stop()
		if _, _, ok := a.Fence(time.Now()); ok {
			t.Error("a write may start after the release")
		}
	})
}
