package setpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/cache"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/filter"
	"github.com/setpoint-dev/setpoint/queue"
)

// mappingPeriod is the time between two questions for the scope of a kind.
const mappingPeriod = time.Second

// startupPatience is after how long, again and again, a controller that still
// waits for its sources says so in the log.
const startupPatience = 2 * time.Minute

// Source feeds a controller with requests that do not come from the API
// server, such as the notifications of an external system. It runs from the
// start of the controller, on every replica, and returns when ctx ends, or
// earlier when there is nothing more to come. Add never blocks. An error stops
// the manager.
//
// A replica forgets requests of objects that are not its own at the moment, for
// whoever gets them reconciles them all. Those without an object in the cache, of
// key-form reconcilers, it keeps until they are its own, each once. So every
// replica must be told of everything.
type Source func(ctx context.Context, add func(Request)) error

// Channel returns a Source that adds what it receives from ch, until ch is
// closed.
func Channel(ch <-chan Request) Source {
	return func(ctx context.Context, add func(Request)) error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case req, ok := <-ch:
				if !ok {
					return nil
				}
				add(req)
			}
		}
	}
}

// external is a Source and its name.
type external struct {
	name string
	feed Source
}

// feed runs an external source.
func (c *Controller) feed(ctx context.Context, s external) error {
	return s.feed(c.m.withLogger(ctx, "controller", c.name), func(r Request) {
		cause := queue.Cause{Source: s.name}
		switch to := c.siteOf(r.Cluster); {
		case to == nil:
			c.dropped(r)
		case c.m.leads.holds(r):
			to.queue.Add(r, queue.Fresh, cause)
		default:
			to.giveUp(r, []queue.Cause{cause})
		}
	})
}

// source is a watched kind and what its changes mean to the controller.
type source struct {
	name   string // "For", "Owns", "Watches" or "Reads"
	kind   schema.GroupVersionKind
	notify func(*site, context.Context, delivery) // nil: changes cause nothing
	in     Clusters                               // where it is watched; nil: where the controller works
}

// tap is a source in one cluster.
type tap struct {
	*source
	calls chan struct{} // has room for one call of notify at a time
	// declared is closed when watch was set; it must not be read before.
	declared chan struct{}
	watch    *cache.Watch
}

func newTap(s *source) *tap {
	return &tap{source: s, calls: make(chan struct{}, 1), declared: make(chan struct{})}
}

func (s *source) String() string {
	return s.name + " " + kindName(s.kind)
}

// waitsFor returns what keeps the first listing from coming, or nil when it
// came.
func (s *tap) waitsFor() error {
	select {
	case <-s.declared:
	default:
		return fmt.Errorf("%v: not watched yet", s)
	}
	select {
	case <-s.watch.Synced():
		return nil
	default:
	}
	if err := s.watch.Err(); err != nil {
		return fmt.Errorf("%v: waiting for the first listing: %w", s, err)
	}
	return fmt.Errorf("%v: waiting for the first listing", s)
}

// problem returns what is wrong with a watch that once worked.
func (s *tap) problem() error {
	if err := s.watch.Err(); err != nil {
		return fmt.Errorf("%v: the watch is interrupted: %w", s, err)
	}
	return nil
}

// watch declares the controller's watches in the cluster, waits for their first
// listings, and closes them when ctx ends.
func (c *site) watch(ctx context.Context) error {
	ctx = logr.NewContextWithSlogLogger(ctx, c.log)
	defer c.queue.ShutDown()
	defer func() {
		for _, t := range c.taps {
			if t.watch != nil {
				t.watch.Close()
			}
		}
	}()
	start := time.Now()
	if c.cluster.name == "" && c.optional {
		c.metrics.Ready.Set(1) // nobody need mind if the kind never comes
	}
	c.takeover.won() // what is held now misses no change
	c.unpark(c.m.leads.holds)
	for i, t := range c.taps {
		if i == 1 && c.works && !c.waitForMapping(ctx) {
			return nil
		}
		if err := c.declare(ctx, t); err != nil {
			return err
		}
	}
	for _, t := range append(c.taps[:len(c.taps):len(c.taps)], c.common()...) {
		if !c.wait(ctx, t) {
			return nil
		}
	}
	c.takeOver(ctx)
	close(c.synced)
	c.log.Info("controller ready", "after", time.Since(start).Round(time.Millisecond))
	if c.cluster.name == "" {
		c.metrics.Ready.Set(1)
		defer c.metrics.Ready.Set(0)
	}
	for {
		select {
		case <-c.takeover.wake:
			c.takeOver(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// common returns what a member waits for beside its own sources: those of
// WatchesIn in the manager's own cluster, which may bring requests of every
// cluster. It does not wait for other members.
func (c *site) common() []*tap {
	if c.cluster.name == "" {
		return nil
	}
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	home := c.m.home.sites[c.Controller]
	if home == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(home.taps), func(t *tap) bool { return t.in == nil })
}

// declare starts the watch of t.
func (c *site) declare(ctx context.Context, t *tap) (err error) {
	var subscriber func(filter.Change)
	if t.notify != nil {
		subscriber = func(change filter.Change) { c.notify(ctx, t, delivery{change, c.m.leads.holds}) }
	}
	if t.watch, err = c.cluster.cache.Watch(t.kind, subscriber); err != nil {
		return fmt.Errorf("watch %v: %w", t, err)
	}
	close(t.declared)
	return nil
}

// notify hands a change to its source. A filter or map function that panics
// costs that one change and is reported.
func (c *site) notify(ctx context.Context, t *tap, change delivery) {
	t.calls <- struct{}{}
	defer func() { <-t.calls }()
	err := recovered(func() error {
		t.source.notify(c, ctx, change)
		return nil
	})
	if panicked := (*panicError)(nil); errors.As(err, &panicked) {
		c.metrics.Panics.Inc()
		c.log.Error("a filter or map function panicked", "source", t.String(),
			"object", objectName(change.Latest().Meta()), "error", err, "stack", string(panicked.stack))
	}
}

// wait waits for the first listing of t and reports false when ctx ended first.
func (c *site) wait(ctx context.Context, t *tap) bool {
	return c.await(ctx, t.declared) && c.await(ctx, t.watch.Synced())
}

// await waits until a channel is closed and reports false when ctx ended first. Every
// now and then it says what it waits for.
func (c *site) await(ctx context.Context, closed <-chan struct{}) bool {
	for {
		timer := time.NewTimer(startupPatience)
		select {
		case <-closed:
			timer.Stop()
			return true
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-timer.C:
			if !c.missing() {
				c.log.Error("controller not started", "error", c.waits())
			}
		}
	}
}

// missing reports whether the controller waits for its primary kind, which is not
// served and need not be.
func (c *site) missing() bool {
	if !c.optional || len(c.taps) == 0 {
		return false
	}
	return meta.IsNoMatchError(c.taps[0].waitsFor())
}

// waitForMapping waits until it is known whether the primary kind is
// namespaced, which decides where owners are looked for. For a kind that is not
// served yet that is when its own watch has succeeded.
func (c *site) waitForMapping(ctx context.Context) bool {
	for {
		mapping, err := c.cluster.mapper.RESTMapping(c.kind.GroupKind(), c.kind.Version)
		if err == nil {
			c.namespaced = mapping.Scope.Name() == meta.RESTScopeNameNamespace
			return true
		}
		if !c.wait(ctx, c.taps[0]) || !sleep(ctx, mappingPeriod) {
			return false
		}
	}
}

// owns declares a source of objects that primary objects control.
func (c *Controller) owns(obj client.Object, filters []filter.Filter) {
	c.watchKind(nil, "Owns", obj, func(at *site, _ context.Context, change delivery) {
		if passes(filters, change.Change) {
			at.onOwned(change)
		}
	})
}

// watches declares a source whose changes are mapped to requests.
func (c *Controller) watches(in Clusters, obj client.Object, requests func(context.Context, client.Object) []Request, filters []filter.Filter) {
	if requests == nil {
		c.mistake("Watches(%T): the function is nil", obj)
		return
	}
	c.watchKind(in, "Watches", obj, func(at *site, ctx context.Context, change delivery) {
		if passes(filters, change.Change) {
			at.onWatched(ctx, change, obj, func(ctx context.Context, o client.Object) []Request {
				found := requests(ctx, o)
				if in == nil && at.cluster.name != "" {
					found = at.local(found)
				}
				return found
			})
		}
	})
}

// local returns requests with the site's cluster where they name none.
func (c *site) local(requests []Request) []Request {
	requests = slices.Clone(requests) // which may be kept by the function that made them
	for i := range requests {
		requests[i].Cluster = cmp.Or(requests[i].Cluster, c.cluster.name)
	}
	return requests
}

// reads declares a source whose changes cause nothing.
func (c *Controller) reads(obj client.Object) { c.watchKind(nil, "Reads", obj, nil) }

func (c *Controller) watchKind(in Clusters, name string, obj client.Object, notify func(*site, context.Context, delivery)) {
	gvk, err := c.m.home.client.GroupVersionKind(obj)
	if err != nil {
		c.mistake("%s(%T): %w", name, obj, err)
		return
	}
	c.sources = append(c.sources, &source{name, gvk, notify, in})
}
