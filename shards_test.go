package setpoint_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/internal/apitest"
	"github.com/setpoint-dev/setpoint/lease"
)

// shares makes a process a member of a ring.
func shares(name string) func(*setpoint.Config) {
	return func(c *setpoint.Config) {
		c.Shards = &setpoint.Shards{Lease: lease.Config{Namespace: "default", Name: "ring", Identity: name}}
	}
}

// floor is where reconciles run: it knows which key is reconciled by whom.
type floor struct {
	t    *testing.T
	cost time.Duration // of a reconcile
	slow time.Duration // of one in fifty; zero: none is slow

	mu     sync.Mutex
	begun  int
	busy   map[string]*process
	counts map[string]int // reconciles by process
	stale  int            // begun while a frozen process had begun the same
}

func newFloor(t *testing.T, cost time.Duration) *floor {
	return &floor{t: t, cost: cost, busy: map[string]*process{}, counts: map[string]int{}}
}

// enter notes that a process begins a reconcile, and returns what that costs.
func (f *floor) enter(key string, p *process) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begun++
	f.counts[p.name]++
	switch other := f.busy[key]; {
	case other == nil || other.isDead():
	case other.isFrozen() || p.isFrozen(): // of a process that stands still nothing runs
		f.stale++
	default:
		f.t.Errorf("%s is reconciled by %s and by %s", key, other.name, p.name)
	}
	f.busy[key] = p
	if f.slow > 0 && f.begun%50 == 0 {
		return f.slow
	}
	return f.cost
}

func (f *floor) leave(key string, p *process) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.busy[key] == p {
		delete(f.busy, key)
	}
}

// count returns how many reconciles a process has begun.
func (f *floor) count(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[name]
}

// copying declares a controller that copies what is wanted of an object to what
// is done, at the floor's cost.
func (p *process) copying(f *floor, workers int) {
	setpoint.For[*corev1.ConfigMap](p.m, "copying").Workers(workers).
		Reconcile(func(ctx context.Context, o *corev1.ConfigMap) (setpoint.Result, error) {
			if p.isDead() {
				return setpoint.Result{}, nil
			}
			cost := f.enter(o.Name, p)
			defer f.leave(o.Name, p)
			select {
			case <-time.After(cost):
			case <-ctx.Done():
				return setpoint.Result{}, ctx.Err()
			}
			if o.Data["done"] == o.Data["wanted"] {
				return setpoint.Result{}, nil
			}
			return setpoint.Result{}, p.m.Client().Patch(ctx, o, merge(`{"data":{"done":%q}}`, o.Data["wanted"]))
		})
}

// fleet is replicas that come and go.
type fleet struct {
	t       *testing.T
	seed    uint64
	random  *rand.Rand
	server  *apitest.Server
	judge   *judge
	floor   *floor
	alive   []*process
	gone    []*process
	started int
	allowed int // moves of shards
}

const shardCount = lease.DefaultShards

func newFleet(t *testing.T, seed uint64, objects int, cost time.Duration) *fleet {
	f := &fleet{t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 0)), floor: newFloor(t, cost),
		server: apitest.New(apitest.ConfigMaps, apitest.Leases)}
	f.judge = newJudge(t, f.server, func(name string) string {
		return fmt.Sprintf("ring-%d", lease.Shard("default/"+name, shardCount))
	})
	for n := range objects {
		f.want(n)
	}
	return f
}

// want gives an object something new to do.
func (f *fleet) want(n int) {
	o := numbered(n)
	if !f.server.Get(o) {
		o.Data = map[string]string{}
	}
	o.Data["wanted"] = fmt.Sprint(f.random.Uint64())
	apitest.Put(f.server, o)
}

func (f *fleet) add(workers int) *process {
	f.started++
	name := fmt.Sprint("r", f.started)
	p := newProcess(f.t, f.server, name, shares(name), func(c *setpoint.Config) { c.Seed = f.seed + uint64(f.started) })
	p.copying(f.floor, workers)
	p.start()
	f.alive = append(f.alive, p)
	return p
}

// moved allows the moves of one member that comes or goes: its share, and what
// the others exchange to remain even.
func (f *fleet) moved(members int) { f.allowed += 2 * ((shardCount + members - 1) / members) }

// meddle lets one replica come, go, crash, stand still or be cut off.
func (f *fleet) meddle() {
	i := f.random.IntN(len(f.alive))
	p, length := f.alive[i], time.Duration(f.random.Int64N(int64(40*time.Second)))
	end := func() {
		f.gone, f.alive = append(f.gone, p), slices.Delete(f.alive, i, i+1)
		f.moved(len(f.alive))
	}
	switch chance := f.random.IntN(8); {
	case chance < 2:
		p.freeze()
		time.AfterFunc(length, p.unfreeze)
		f.moved(len(f.alive))
		f.moved(len(f.alive))
	case chance < 4:
		p.setCut(true)
		time.AfterFunc(length, func() { p.setCut(false) })
		f.moved(len(f.alive))
		f.moved(len(f.alive))
	case chance == 4 && len(f.alive) > 2:
		p.kill()
		end()
	case chance == 5 && len(f.alive) > 2:
		p.stop()
		end()
	case len(f.alive) < 5:
		f.moved(len(f.alive) + 1)
		f.add(4)
	}
}

// churn changes objects and replicas at random for so long.
func (f *fleet) churn(length time.Duration, objects int) {
	next := time.Now().Add(20 * time.Second)
	for start := time.Now(); time.Since(start) < length; {
		time.Sleep(time.Duration(f.random.ExpFloat64() * float64(200*time.Millisecond)))
		f.want(f.random.IntN(objects))
		if time.Now().After(next) {
			f.meddle()
			f.server.Requests()
			next = time.Now().Add(time.Duration(f.random.ExpFloat64() * float64(20*time.Second)))
		}
	}
}

// unfinished returns how many objects are not done.
func (f *fleet) unfinished(objects int) []string {
	var left []string
	for n := range objects {
		o := numbered(n)
		if f.server.Get(o); o.Data["done"] != o.Data["wanted"] {
			left = append(left, o.Name)
		}
	}
	return left
}

func (f *fleet) end() {
	for _, p := range slices.Concat(f.alive, f.gone) {
		p.stop()
	}
	for _, p := range slices.Concat(f.alive, f.gone) {
		if err := p.end(); err != nil && !p.isDead() {
			f.t.Logf("%s: %v", p.name, err)
		}
	}
}

// Replicas that share their objects come, go, crash, stand still and are cut off
// at random while the objects change. No key is ever reconciled by two of them at
// once, no write arrives whose sender does not hold the shard, nothing is
// forgotten, and no more shards move than the comings and goings explain.
//
// SETPOINT_SEED repeats one run; SETPOINT_SHARDS_SEEDS, SETPOINT_SHARDS_OBJECTS
// and SETPOINT_SHARDS_MINUTES make it larger (make shards).
func TestShardsUnderChurn(t *testing.T) {
	seeds, objects := envNumber(t, "SETPOINT_SHARDS_SEEDS", 1), envNumber(t, "SETPOINT_SHARDS_OBJECTS", 80)
	length := time.Duration(envNumber(t, "SETPOINT_SHARDS_MINUTES", 1)) * time.Minute
	first := seedFromEnv(t)
	if os.Getenv("SETPOINT_SEED") != "" {
		seeds = 1
	}
	for n := range seeds {
		seed := first + uint64(n)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFleet(t, seed, objects, 5*time.Millisecond)
				f.floor.slow = 2 * time.Second
				for members := range 4 {
					f.moved(members + 1)
					f.add(4)
				}
				settle(20 * time.Second)
				f.churn(length, objects)
				settle(80 * time.Second) // freezes and cuts end, and the rest is done
				if left := f.unfinished(objects); len(left) > 0 {
					t.Errorf("%d objects were forgotten, the first is %s in shard %s", len(left), left[0], f.judge.leaseOf(left[0]))
				}
				if f.judge.moves > f.allowed {
					t.Errorf("%d shards moved, want at most %d", f.judge.moves, f.allowed)
				}
				reconciles := 0
				for _, n := range f.floor.counts {
					reconciles += n
				}
				t.Logf("SETPOINT_SEED=%d: %d objects, %d replicas in turn, %d reconciles, %d writes, %d moves of at most %d, %d keys taken over from frozen replicas",
					seed, objects, f.started, reconciles, f.judge.total(), f.judge.moves, f.allowed, f.floor.stale)
				f.end()
			})
		})
	}
}

// Several replicas do the work in less time: as much as the load is even.
func TestShardsThroughput(t *testing.T) {
	const objects, cost = 240, 200 * time.Millisecond
	var alone time.Duration
	for _, replicas := range []int{1, 2, 4} {
		bubble(t, func(t *testing.T) {
			f := newFleet(t, 1, 0, cost)
			for range replicas {
				f.add(1)
			}
			settle(20 * time.Second)
			start := time.Now()
			for n := range objects {
				f.want(n)
			}
			for f.judge.total() < objects && time.Since(start) < time.Hour {
				settle(200 * time.Millisecond)
			}
			took := time.Since(start)
			if replicas == 1 {
				alone = took
			}
			gain := float64(alone) / float64(took)
			t.Logf("%d replicas: %.1f reconciles/s, %.2f times as many as one; by replica: %v", replicas, objects/took.Seconds(), gain, f.floor.counts)
			if gain < 0.7*float64(replicas) {
				t.Errorf("%d replicas are %.2f times as fast as one", replicas, gain)
			}
			f.end()
		})
	}
}

// A replica that leaves hands over within seconds what it does, after bringing it
// to an end; objects that came meanwhile are found, and one that is gone is not
// looked for.
func TestShardsHandOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 1, 40, 3*time.Second)
		a, b := f.add(40), f.add(40)
		settle(20 * time.Second)
		if n := len(a.held()) + len(b.held()); n != shardCount || f.floor.count("r1") == 0 || f.floor.count("r2") == 0 {
			t.Fatalf("%d shards are held, reconciles %v", n, f.floor.counts)
		}
		for n := range 40 {
			f.want(n)
		}
		time.Sleep(time.Second)
		before := f.floor.count("r1")
		if err := a.end(); err != nil {
			t.Error(err)
		}
		settle(time.Millisecond) // b ends at the same time
		if left := len(f.unfinished(40)); left > 0 {
			t.Errorf("%d reconciles were not brought to an end", left)
		}
		if f.floor.count("r1") != before {
			t.Error("a began something while it left")
		}
		settle(5 * time.Second)
		if len(b.held()) != shardCount {
			t.Errorf("b holds %v", b.held())
		}
		if got := b.metric(t, `leader_election_master_status{name="ring-0"}`); got != "1" {
			t.Errorf("metric of the first shard: %q", got)
		}
		f.end()
	})
}

func (p *process) held() []int { return setpoint.HeldShards(p.m) }

// metric returns the value of a series.
func (p *process) metric(t *testing.T, series string) string {
	t.Helper()
	r := &rig{T: t, m: p.m}
	return strings.TrimSpace(strings.TrimPrefix(r.metric(series), series))
}

// Runnables run once in the ring, and Key decides what stays together.
func TestShardsKeyAndRunnables(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps, apitest.Leases)
		ran := &calls{}
		var processes []*process
		byNamespace := func(c *setpoint.Config) { c.Shards.Key = func(r setpoint.Request) string { return r.Namespace } }
		for _, name := range []string{"a", "b", "c"} {
			p := newProcess(t, server, name, shares(name), byNamespace)
			p.m.Add(setpoint.Runnable{Name: "once", Run: func(ctx context.Context) error {
				ran.add("begun")
				<-ctx.Done()
				ran.add("ended")
				return nil
			}})
			setpoint.For[*corev1.ConfigMap](p.m, "by-namespace").
				Reconcile(func(_ context.Context, o *corev1.ConfigMap) (setpoint.Result, error) {
					ran.add(o.Namespace + " by " + name)
					return setpoint.Result{}, nil
				})
			p.start()
			processes = append(processes, p)
		}
		settle(20 * time.Second)
		for n := range 30 {
			apitest.Put(server, configMap(fmt.Sprint("ns", n%3), fmt.Sprint("o", n)))
		}
		settle(20 * time.Second)
		for n := range 3 {
			var by []int
			for _, p := range processes {
				if count := ran.of(fmt.Sprintf("ns%d by %s", n, p.name)); count > 0 {
					by = append(by, count)
				}
			}
			if !slices.Equal(by, []int{10}) {
				t.Errorf("namespace %d: reconciles %v, want 10 by one replica", n, by)
			}
		}
		if begun, ended := ran.of("begun"), ran.of("ended"); begun-ended != 1 {
			t.Errorf("the runnable began %d times and ended %d times", begun, ended)
		}
		for _, p := range processes {
			if err := p.end(); err != nil {
				t.Error(err)
			}
		}
	})
}

// Map functions are called one at a time, by take-overs, too.
func TestShardsMapOneAtATime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 1, 20, time.Millisecond)
		calls, mapping := 0, false
		p := newProcess(t, f.server, "a", shares("a"))
		setpoint.For[*corev1.ConfigMap](p.m, "mapping").
			Watches(&corev1.ConfigMap{}, func(context.Context, client.Object) []setpoint.Request {
				if mapping {
					t.Error("two calls at once")
				}
				mapping = true
				time.Sleep(50 * time.Millisecond)
				calls, mapping = calls+1, false
				return nil
			}).
			Reconcile(func(context.Context, *corev1.ConfigMap) (setpoint.Result, error) { return setpoint.Result{}, nil })
		p.start()
		for n := range 100 {
			f.want(n % 20)
			time.Sleep(30 * time.Millisecond)
		}
		settle(time.Minute)
		if calls < 100 {
			t.Errorf("%d calls", calls)
		}
		if err := p.end(); err != nil {
			t.Error(err)
		}
	})
}

// What is wrong with the declaration comes back at once.
func TestShardsConfig(t *testing.T) {
	_, err := setpoint.NewManager(setpoint.Config{
		REST:           apitest.New().REST(),
		LeaderElection: &lease.Config{Namespace: "default"},
		Shards:         &setpoint.Shards{Count: -1, Lease: lease.Config{Namespace: "default", RetryPeriod: time.Minute}},
	})
	for _, want := range []string{"invalid Shards.Count -1", "RetryPeriod 1m0s", "LeaderElection and Shards are both set"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// What waited for a shard that went to another member is no work, and does not use
// up the rate of the rest.
func TestShardsLostCostNoRate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const objects = 120
		server := apitest.New(apitest.ConfigMaps, apitest.Leases)
		for n := range objects {
			apitest.Put(server, configMap("default", fmt.Sprint("o", n)))
		}
		ran := &calls{}
		join := func(name string) {
			r := newRig(t, server, shares(name))
			setpoint.For[*corev1.ConfigMap](r.m, "calls-out").
				RateLimit(1, 1).
				Reconcile(func(_ context.Context, o *corev1.ConfigMap) (setpoint.Result, error) {
					ran.add(o.Name)
					return setpoint.Result{}, nil
				})
			r.start()
			settle(10 * time.Second)
		}
		join("a")
		join("b")
		settle(75 * time.Second)
		for n := range objects {
			if name := fmt.Sprint("o", n); ran.of(name) == 0 {
				t.Errorf("%s still waits", name)
			}
		}
	})
}

// A standby's queue holds nothing, above all no objects that are gone, and taking
// over finds what is there: regression for queues that grew on standbys.
func TestStandbyQueueIsEmpty(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps, apitest.Leases)
		apitest.Put(server, configMap("default", "stays"))
		a, b := newRig(t, server, elected("a")), newRig(t, server, elected("b"))
		ran := &calls{}
		for _, r := range []*rig{a, b} {
			setpoint.For[*corev1.ConfigMap](r.m, "keys").
				ReconcileRequest(setpoint.ReconcilerFunc(func(_ context.Context, req setpoint.Request) (setpoint.Result, error) {
					ran.add(req.Name)
					return setpoint.Result{}, nil
				}))
			r.start()
			settle(time.Second)
		}
		for n := range 100 {
			o := configMap("default", fmt.Sprint("gone", n))
			apitest.Put(server, o)
			settle(10 * time.Millisecond)
			server.Delete(o)
		}
		settle(time.Minute)
		if got := b.metric(`workqueue_depth{`); !strings.HasSuffix(strings.Split(got, "\n")[0], " 0") || strings.Contains(got, " 100") {
			t.Errorf("the standby's queue: %s", got)
		}
		before := ran.of("gone1")
		if err := a.end(); err != nil {
			t.Error(err)
		}
		settle(10 * time.Second)
		if ran.of("stays") != 2 || ran.of("gone1") != before {
			t.Errorf("after the take-over what stays ran %d times, want 2, and what is gone %d times more", ran.of("stays"), ran.of("gone1")-before)
		}
	})
}
