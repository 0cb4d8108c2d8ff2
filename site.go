package setpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/queue"
)

// site is a controller at work in one cluster: what it watches there, its queue
// and its workers. Nothing of it is shared with other clusters, so that one which
// is slow, floods its queue or never answers costs the others nothing.
type site struct {
	*Controller
	cluster *Cluster
	log     *slog.Logger
	works   bool   // the cluster's objects are reconciled, not only watched
	taps    []*tap // with works, the first is that of the primary objects
	queue   *queue.Queue[Request]

	namespaced bool          // whether the primary kind is; set before owners are looked for
	synced     chan struct{} // closed when all taps delivered their first listing
	takeover   *takeover
	throttle   *throttle // nil: none
	running    running
	loops      loops
}

// settle has the controller be at work in a cluster, if it concerns it; Manager.mu
// is held. Sources that bring requests of other clusters than their own show
// everything once more for the sake of the new one.
func (c *Controller) settle(cl *Cluster) {
	s := c.newSite(cl)
	if len(s.taps) == 0 {
		return
	}
	cl.sites[c] = s
	if !s.works {
		return
	}
	c.metrics.MaxWorkers.Add(float64(c.workers))
	for _, other := range c.m.allClusters() {
		if other := other.sites[c]; other != nil && other != s {
			other.takeover.join(cl.name)
		}
	}
}

func (c *Controller) newSite(cl *Cluster) *site {
	s := &site{
		Controller: c, cluster: cl, log: c.log, works: c.in(cl.name),
		synced: make(chan struct{}), takeover: newTakeover(), throttle: newThrottle(c.rate),
	}
	if cl.name != "" {
		s.log = c.log.With("cluster", cl.name)
	}
	for _, source := range c.sources {
		if c.watchesIn(cl.name, source) {
			s.taps = append(s.taps, newTap(source))
		}
	}
	waited, worked := c.m.queues.Observers(c.name)
	s.queue = queue.New(queue.Config[Request]{
		Flow:    flow,
		Backoff: c.backoff, Retries: c.retries,
		Waited: waited, Worked: worked,
	})
	return s
}

// watchesIn reports whether a source is watched in a cluster.
func (c *Controller) watchesIn(cluster string, s *source) bool {
	if s.in != nil {
		return s.in(cluster)
	}
	return c.in(cluster)
}

// flow is what requests share the workers of a controller in a cluster by: the
// namespace.
func flow(r Request) string { return r.Namespace }

// sites returns the controller's sites: that in the manager's own cluster, then
// those in the members by name.
func (c *Controller) sites() []*site {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	var sites []*site
	for _, cl := range c.m.allClusters() {
		if s := cl.sites[c]; s != nil {
			sites = append(sites, s)
		}
	}
	return sites
}

// siteOf returns where a cluster's requests are worked on, or nil when they are
// not.
func (c *Controller) siteOf(cluster string) *site {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	cl := c.m.clusterNamed(cluster)
	if cl == nil {
		return nil
	}
	if s := cl.sites[c]; s != nil && s.works {
		return s
	}
	return nil
}

// siteFor is siteOf for a request that comes from this site. It says in the log
// when there is none.
func (c *site) siteFor(r Request) *site {
	if c.works && r.Cluster == c.cluster.name {
		return c
	}
	to := c.siteOf(r.Cluster)
	if to == nil {
		c.dropped(r)
	}
	return to
}

// dropped says that a request is for a cluster in which the controller does not
// work. Should that change, its objects are found by listing.
func (c *Controller) dropped(r Request) {
	c.log.Info("a request is dropped: the controller does not work in that cluster", "object", r.String())
}

// startSites starts the watches and workers of all controllers in a cluster.
func (m *Manager) startSites(ctx context.Context, workers, g *group, cl *Cluster) {
	where := ""
	if cl.name != "" {
		where = " in cluster " + cl.name
	}
	ctx = context.WithValue(ctx, clusterKey{}, cl)
	for _, s := range m.sitesIn(cl) {
		g.start("controller "+s.name+where, func() error { return s.watch(ctx) })
		if !s.works {
			continue
		}
		for range s.workers {
			workers.start("worker of controller "+s.name+where, func() error { return s.work(ctx) })
		}
	}
}

// waits returns what keeps reconciles from beginning, or nil.
func (c *site) waits() error {
	select {
	case <-c.synced:
		return nil
	default:
	}
	var waits []error
	for _, t := range c.taps {
		if err := t.waitsFor(); err != nil {
			waits = append(waits, err)
		}
	}
	if len(waits) == 0 {
		return errors.New("not started")
	}
	return errors.Join(waits...)
}

// stuck returns an error when all workers are busy for much too long.
func (c *site) stuck() error {
	if !c.works {
		return nil
	}
	stuck := c.running.stuck(time.Now(), c.patience())
	if len(stuck) < c.workers {
		return nil
	}
	return fmt.Errorf("all %d workers are stuck; the longest reconciles %s since %v", c.workers, stuck[0].req, stuck[0].since)
}

// interrupted returns what is wrong with the first watch that once worked and
// does not now.
func (c *site) interrupted() error {
	for _, t := range c.taps {
		if err := t.problem(); err != nil {
			return err
		}
	}
	return nil
}

// addStats returns the figures of two queues together.
func addStats(a, b queue.Stats) queue.Stats {
	for class, n := range b.Ready {
		a.Ready[class] += n
	}
	a.Delayed += b.Delayed
	a.Throttled += b.Throttled
	a.Rerun += b.Rerun
	a.Running += b.Running
	a.Unfinished += b.Unfinished
	a.Longest = max(a.Longest, b.Longest)
	a.Adds += b.Adds
	a.Merged += b.Merged
	a.Retries += b.Retries
	return a
}

// stats returns the figures of the controller's queues together. Its counters
// count those of removed clusters, too.
func (c *Controller) stats() queue.Stats {
	c.m.mu.Lock()
	total := c.past
	var queues []*queue.Queue[Request]
	if s := c.m.home.sites[c]; s != nil {
		queues = append(queues, s.queue)
	}
	for _, cl := range c.m.members { // those that are being removed, too
		if s := cl.sites[c]; s != nil {
			queues = append(queues, s.queue)
		}
	}
	c.m.mu.Unlock()
	for _, q := range queues {
		total = addStats(total, q.Stats())
	}
	return total
}

// snapshot returns what the controller's queues hold together: at most so many
// running and waiting keys of each.
func (c *Controller) snapshot(limit int) queue.Snapshot[Request] {
	var all queue.Snapshot[Request]
	for _, s := range c.sites() {
		one := s.queue.Snapshot(limit)
		all.Stats = addStats(all.Stats, one.Stats)
		all.Running = append(all.Running, one.Running...)
		all.Waiting = append(all.Waiting, one.Waiting...)
	}
	slices.SortStableFunc(all.Running, func(a, b queue.Running[Request]) int { return a.Since.Compare(b.Since) })
	slices.SortStableFunc(all.Waiting, func(a, b queue.Waiting[Request]) int { return a.Due.Compare(b.Due) })
	all.Running = all.Running[:min(len(all.Running), limit)]
	all.Waiting = all.Waiting[:min(len(all.Waiting), limit)]
	return all
}

// reconciling returns what runs in all clusters, the longest first.
func (c *Controller) reconciling() []*reconcileInfo {
	var all []*reconcileInfo
	for _, s := range c.sites() {
		all = append(all, s.running.list()...)
	}
	slices.SortStableFunc(all, func(a, b *reconcileInfo) int { return a.since.Compare(b.since) })
	return all
}
