package lease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/apitest"
)

// Where keys are must never change: replicas of two versions run side by side.
func TestShardIsStable(t *testing.T) {
	got := []int{Shard("default/a", 16), Shard("default/b", 16), Shard("", 16), Shard("kube-system/dns", 7)}
	if want := []int{15, 7, 0, 4}; !slices.Equal(got, want) {
		t.Errorf("shards %v, want %v", got, want)
	}
	counts := make([]int, 16)
	for i := range 16000 {
		counts[Shard(fmt.Sprint("default/object-", i), 16)]++
	}
	if least, most := slices.Min(counts), slices.Max(counts); least < 850 || most > 1150 {
		t.Errorf("of 16000 keys a shard has %d to %d, want about 1000", least, most)
	}
}

// The load is even, does not depend on the order of the members, and a member
// that comes takes what it gets from the others, who exchange little.
func TestAssign(t *testing.T) {
	const shards = 16
	random := rand.New(rand.NewPCG(1, 1))
	for members := 1; members <= 9; members++ {
		moves, swaps, rounds := 0, 0, 200
		for round := range rounds {
			var names []string
			for i := range members + 1 {
				names = append(names, fmt.Sprintf("host-%d-%d", round, i))
			}
			before, after := assign(names[:members], "ring", shards), assign(names, "ring", shards)
			held := map[string]int{}
			for i := range shards {
				held[after[i]]++
				if before[i] != after[i] {
					moves++
					if after[i] != names[members] {
						swaps++
					}
				}
			}
			if len(held) != members+1 || slices.Max(slices.Collect(maps.Values(held))) > share(shards, members+1) {
				t.Fatalf("%d members hold %v", members+1, held)
			}
			random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
			if again := assign(names, "ring", shards); !slices.Equal(again, after) {
				t.Fatalf("the order of the members matters: %v and %v", after, again)
			}
		}
		share, average, among := share(shards, members+1), float64(moves)/float64(rounds), float64(swaps)/float64(rounds)
		t.Logf("from %d to %d members: %.1f of %d shards move, %.1f of them between old members; the share is %d",
			members, members+1, average, shards, among, share)
		if among > 1.25*float64(share) {
			t.Errorf("from %d to %d members %.1f shards move between old members", members, members+1, among)
		}
	}
	if owners := assign(nil, "ring", 2); !slices.Equal(owners, []string{"", ""}) {
		t.Errorf("owners without members: %v", owners)
	}
}

// node is a member of a ring, and what it leads.
type node struct {
	*Ring
	t      *testing.T
	cancel context.CancelFunc
	done   chan error
	drain  time.Duration         // that a shard needs to stop
	slow   map[int]time.Duration // that these need

	mu     sync.Mutex
	leads  map[int]bool
	all    *sync.Map // shard → name: who leads, over all nodes
	failed error     // what the next lead returns
}

func startNode(t *testing.T, server *apitest.Server, all *sync.Map, name string, shards int, drain time.Duration) *node {
	t.Helper()
	n := &node{t: t, done: make(chan error, 1), leads: map[int]bool{}, all: all, drain: drain}
	cfg, leases := identify(t, server, name)
	var err error
	if n.Ring, err = NewRing(cfg, shards, Options{Leases: leases}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	go func() { n.done <- n.Run(ctx, n.lead) }()
	t.Cleanup(func() { n.stop() })
	return n
}

func (n *node) stop() error {
	n.cancel()
	err := <-n.done
	n.done <- err
	return err
}

func (n *node) lead(ctx, held context.Context, shard int) error {
	if other, taken := n.all.Swap(shard, n.Identity()); taken {
		n.t.Errorf("%s and %s lead shard %d at once", n.Identity(), other, shard)
	}
	n.mark(shard, true)
	<-ctx.Done()
	drain := n.drain
	if slow, ok := n.slow[shard]; ok {
		drain = slow
	}
	select {
	case <-time.After(drain):
	case <-held.Done():
	}
	n.mark(shard, false)
	n.all.Delete(shard)
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.failed
}

func (n *node) mark(shard int, leads bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.leads[shard] = leads; !leads {
		delete(n.leads, shard)
	}
}

func (n *node) held() []int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Sorted(maps.Keys(n.leads))
}

// divided checks that the nodes hold all shards, each its share.
func divided(t *testing.T, shards int, nodes ...*node) {
	t.Helper()
	total := 0
	for _, n := range nodes {
		held := n.held()
		if len(held) > share(shards, len(nodes)) || !slices.Equal(held, n.Held()) {
			t.Errorf("%s leads %v and holds %v of %d shards, %d members", n.Identity(), held, n.Held(), shards, len(nodes))
		}
		total += len(held)
	}
	if total != shards {
		t.Errorf("%d of %d shards are held", total, shards)
	}
}

// members returns how many Leases of members there are.
func members(server *apitest.Server, shards int) int { return server.Count(apitest.Leases) - shards }

// Members that come, go, crash and are cut off share what there is, and nothing
// is led twice at a time.
func TestRing(t *testing.T) {
	bubble(t, func(t *testing.T, server *apitest.Server) {
		const shards = 8
		all := &sync.Map{}
		a := startNode(t, server, all, "a", shards, time.Second)
		settle(time.Second)
		divided(t, shards, a)
		b := startNode(t, server, all, "b", shards, time.Second)
		settle(10 * time.Second)
		divided(t, shards, a, b)
		c := startNode(t, server, all, "c", shards, time.Second)
		settle(10 * time.Second)
		divided(t, shards, a, b, c)
		if seen, err := c.Members(); err != nil || !slices.Equal(seen, []string{"a", "b", "c"}) {
			t.Errorf("members %v, %v", seen, err)
		}

		// One that goes hands over at once, and leaves nothing behind.
		if err := b.stop(); err != nil {
			t.Error(err)
		}
		settle(6 * time.Second)
		divided(t, shards, a, c)
		if n := members(server, shards); n != 2 {
			t.Errorf("%d members' Leases, want 2", n)
		}

		// One that is cut off loses all, in time.
		server.Intercept(func(q apitest.Request) error {
			if q.UserAgent == "a" {
				return errors.New("unreachable")
			}
			return nil
		})
		settle(DefaultDuration + 3*DefaultRetryPeriod)
		divided(t, shards, c)
		if held := a.held(); len(held) > 0 {
			t.Errorf("a still leads %v", held)
		}
		if _, err := a.Members(); err != nil && !strings.Contains(err.Error(), "unreachable") {
			t.Errorf("a says %v", err)
		}
		server.Intercept(nil)
		settle(10 * time.Second)
		divided(t, shards, a, c)
	})
}

// What a crash left behind is forgotten, its Lease too.
func TestRingForgetsTheDead(t *testing.T) {
	bubble(t, func(t *testing.T, server *apitest.Server) {
		all := &sync.Map{}
		a := startNode(t, server, all, "a", 4, 0)
		b := startNode(t, server, all, "b", 4, 0)
		settle(10 * time.Second)
		divided(t, 4, a, b)
		server.Intercept(func(q apitest.Request) error {
			if q.UserAgent == "b" {
				return errors.New("unreachable")
			}
			return nil
		})
		b.stop()
		settle(DefaultDuration + 3*DefaultRetryPeriod)
		divided(t, 4, a)
		settle(forgetAfter * DefaultDuration)
		if n := members(server, 4); n != 1 {
			t.Errorf("%d members' Leases, want 1", n)
		}
	})
}

// A member that leaves says so at once: what it has drained goes to others while
// the rest still drains.
func TestRingLeavesShardByShard(t *testing.T) {
	bubble(t, func(t *testing.T, server *apitest.Server) {
		all := &sync.Map{}
		a := startNode(t, server, all, "a", 4, 0)
		a.slow = map[int]time.Duration{2: time.Minute}
		settle(3 * time.Second)
		b := startNode(t, server, all, "b", 4, 0)
		settle(6 * time.Second)
		a.cancel()
		settle(6 * time.Second)
		if want := []int{0, 1, 3}; !slices.Equal(b.held(), want) {
			t.Errorf("b leads %v, want %v", b.held(), want)
		}
		settle(time.Minute)
		divided(t, 4, b)
	})
}

// Work that cannot be stopped keeps its shard's lease until that expires, and
// disturbs no other shard.
func TestRingUndrained(t *testing.T) {
	bubble(t, func(t *testing.T, server *apitest.Server) {
		all := &sync.Map{}
		a := startNode(t, server, all, "a", 2, 0)
		a.failed = fmt.Errorf("%w: something", ErrNotDrained)
		settle(10 * time.Second)
		b := startNode(t, server, all, "b", 2, 0)
		settle(5 * time.Second)
		if len(a.held()) != 1 || len(b.held()) != 0 {
			t.Errorf("a leads %v, b %v before the lease expired", a.held(), b.held())
		}
		settle(DefaultDuration + 3*DefaultRetryPeriod)
		divided(t, 2, a, b)
		a.mu.Lock()
		a.failed = errors.New("broken")
		a.mu.Unlock()
		if err := a.stop(); err == nil || !strings.Contains(err.Error(), "broken") {
			t.Errorf("Run: %v", err)
		}
	})
}

// A member that counts other shards than an older one holds nothing until that
// one is gone, whatever it drains meanwhile.
func TestRingDisagreement(t *testing.T) {
	bubble(t, func(t *testing.T, server *apitest.Server) {
		old := startNode(t, server, &sync.Map{}, "old", 4, 20*time.Second)
		settle(5 * time.Second)
		young := startNode(t, server, &sync.Map{}, "young", 8, 0)
		settle(time.Minute)
		divided(t, 4, old)
		if _, err := young.Members(); err == nil || !strings.Contains(err.Error(), "member old counts 4 shards, this one 8") || len(young.held()) > 0 {
			t.Errorf("young leads %v and says %v", young.held(), err)
		}
		old.cancel()
		settle(19 * time.Second)
		if len(young.held()) > 0 {
			t.Error("young works while old drains")
		}
		settle(5 * time.Second)
		divided(t, 8, young)
	})
}

func TestRingConfig(t *testing.T) {
	for name, shards := range map[string]int{"work": 0, "Work": 4, strings.Repeat("x", 56): 4, "-": 4, "fine": MaxShards + 1} {
		if _, err := NewRing(Config{Namespace: "default", Name: name}, shards, Options{}); err == nil {
			t.Errorf("%q with %d shards is accepted", name, shards)
		}
	}
}

// The Leases of members say what they are.
func TestMemberLease(t *testing.T) {
	bubble(t, func(t *testing.T, server *apitest.Server) {
		startNode(t, server, &sync.Map{}, "Some_host", 4, 0)
		synctest.Wait()
		lease := stored(server)
		lease.ObjectMeta = metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("work-member-%016x", hash("Some_host"))}
		if !server.Get(lease) {
			t.Fatal("no Lease of the member")
		}
		if lease.Labels[ringLabel] != "work" || lease.Annotations[shardsAnnotation] != "4" || *lease.Spec.HolderIdentity != "Some_host" {
			t.Errorf("%+v", lease)
		}
	})
}
