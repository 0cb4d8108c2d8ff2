package setpoint

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/setpoint-dev/setpoint/filter"
	"github.com/setpoint-dev/setpoint/queue"
)

// takeover is what a controller has to do for the shards that were won lately,
// and what it keeps for those that it may win.
//
// Queues hold no requests of shards that are not held. For a shard that is won
// the controller shows itself all objects of all its sources once more, from the
// cache, as at a start: that finds whatever has to be done, planned reconciles
// that died with another process included, and no objects that are gone.
type takeover struct {
	wake chan struct{} // receives when shards were won

	mu       sync.Mutex
	shards   map[int]bool
	clusters map[string]bool // that joined
	// parked are requests of shards that were not held then, for which there
	// is no object to find them by. Only key-form reconcilers have such.
	parked map[Request][]queue.Cause
}

func newTakeover() *takeover {
	return &takeover{wake: make(chan struct{}, 1), shards: map[int]bool{}, clusters: map[string]bool{}, parked: map[Request][]queue.Cause{}}
}

// win notes that a shard is held now.
func (t *takeover) win(shard int) {
	t.mu.Lock()
	t.shards[shard] = true
	t.mu.Unlock()
	t.rouse()
}

// join notes that a cluster was added.
func (t *takeover) join(cluster string) {
	t.mu.Lock()
	t.clusters[cluster] = true
	t.mu.Unlock()
	t.rouse()
}

func (t *takeover) rouse() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// won returns the shards that were won and the clusters that joined since the
// last call.
func (t *takeover) won() (shards map[int]bool, clusters map[string]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	shards, clusters = t.shards, t.clusters
	t.shards, t.clusters = map[int]bool{}, map[string]bool{}
	return shards, clusters
}

func (t *takeover) park(r Request, causes []queue.Cause) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.parked[r] = causes
}

// parked is a request that was parked, and why it had been queued.
type parked struct {
	request Request
	causes  []queue.Cause
}

// unpark returns the parked requests that are wanted, sorted, and forgets them.
func (t *takeover) unpark(wanted func(Request) bool) []parked {
	t.mu.Lock()
	defer t.mu.Unlock()
	var found []parked
	for r, causes := range t.parked {
		if wanted(r) {
			found = append(found, parked{r, causes})
			delete(t.parked, r)
		}
	}
	slices.SortFunc(found, func(a, b parked) int { return strings.Compare(a.request.String(), b.request.String()) })
	return found
}

// takeOver queues what is in the shards that were won, and what the sources that
// concern other clusters, too, have for those that joined.
func (c *site) takeOver(ctx context.Context) {
	shards, clusters := c.takeover.won()
	if len(shards)+len(clusters) == 0 {
		return
	}
	wanted := func(r Request) bool {
		return c.m.leads.holds(r) && (shards[c.m.leads.shardOf(r)] || clusters[r.Cluster])
	}
	for _, t := range c.taps {
		if t.notify != nil && (len(shards) > 0 || t.in != nil) {
			c.replay(ctx, t, wanted)
		}
	}
	c.unpark(wanted)
}

// unpark queues the parked requests that are wanted.
func (c *site) unpark(wanted func(Request) bool) {
	for _, p := range c.takeover.unpark(wanted) {
		for _, cause := range p.causes {
			c.queue.Add(p.request, queue.Listed, cause)
		}
	}
}

// replay shows a source all objects of its kind in the cluster.
func (c *site) replay(ctx context.Context, t *tap, wanted func(Request) bool) {
	watch, err := c.cluster.cache.Watch(t.kind, func(change filter.Change) {
		if change.Initial {
			c.notify(ctx, t, delivery{change, wanted})
		}
	})
	if err != nil {
		c.log.Error("a take-over cannot see the objects", "source", t.String(), "error", err)
		return
	}
	defer watch.Close()
	select {
	case <-watch.Synced():
	case <-ctx.Done():
	}
}

// giveUp lets go of a request of a shard that is not held. Should the shard have
// been won meanwhile, the take-over may have looked for parked requests already.
func (c *site) giveUp(r Request, causes []queue.Cause) {
	c.queue.Forget(r)
	if c.onRequest == nil {
		return
	}
	if _, known := c.cluster.cache.Peek(c.kind, r.Key()); !known {
		c.takeover.park(r, causes)
		c.unpark(func(parked Request) bool { return parked == r && c.m.leads.holds(r) })
	}
}
