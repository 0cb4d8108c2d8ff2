package setpoint

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/lease"
)

// killPeriod is what work gets to end after its context was cancelled. Work that
// still runs then is given up and named in Run's error.
const killPeriod = 5 * time.Second

// errStopping is the cause of the cancellation of reconciles whose grace is over,
// or that get none because the lease was lost.
var errStopping = errors.New("the work is stopped")

// Run starts everything, blocks until ctx ends or a part fails, and then stops
// everything: no new reconcile starts, running ones get the grace period, the
// lease is released, and no goroutine is left. It returns nil when ctx ended
// and all stopped in time, and otherwise what failed or what still runs.
//
// Mistakes in the declarations of controllers and runnables are returned at
// once, all together, before anything starts. A manager runs once.
//
// When a lease was lost, its work is stopped in the same way but without grace,
// and Run campaigns again.
func (m *Manager) Run(ctx context.Context) error {
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	members := &host{group: newGroup(m.log, stop), ctx: running}
	present, err := m.begin(members)
	if err != nil {
		return err
	}
	// What work needs until its end outlives ctx.
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()

	base, workers, work := newGroup(m.log, stop), newGroup(m.log, stop), newGroup(m.log, stop)
	m.startServing(serving, base)
	m.startWork(running, workers, work)
	for _, c := range present {
		members.start("cluster "+c.name, func() error { return m.runMember(members, c) })
	}

	<-running.Done()
	m.log.Info("stopping", "cause", context.Cause(running))
	members.close()
	still := work.wait(serving, m.cfg.GracePeriod+2*killPeriod)
	if !errors.Is(work.err(), lease.ErrNotDrained) { // which names what the workers do
		still = append(still, workers.wait(serving, killPeriod)...)
	}
	still = append(still, members.wait(serving, 2*killPeriod)...)
	stopServing()
	still = append(still, base.wait(context.Background(), killPeriod)...)
	closeIdle(m.home.http.Transport)

	errs := []error{work.err(), workers.err(), members.err(), base.err()}
	if len(still) > 0 {
		errs = append(errs, fmt.Errorf("stopped, but this still runs: %s", strings.Join(still, ", ")))
	}
	m.log.Info("stopped")
	return errors.Join(errs...)
}

// closeIdle closes the connections that the transport keeps for later. client-go's
// transports hide the one that has them.
func closeIdle(transport http.RoundTripper) {
	for transport != nil {
		if t, ok := transport.(interface{ CloseIdleConnections() }); ok {
			t.CloseIdleConnections()
			return
		}
		t, ok := transport.(interface{ WrappedRoundTripper() http.RoundTripper })
		if !ok {
			return
		}
		transport = t.WrappedRoundTripper()
	}
}

// begin closes the declarations and returns what is wrong with them. It has the
// controllers be at work in the members that there are, which it returns; those
// that come later run in h.
func (m *Manager) begin(h *host) ([]*Cluster, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.started {
		return nil, errors.New("manager: Run was called before; make a new manager")
	}
	errs := m.errs
	names := map[string]bool{}
	for _, c := range m.controllers {
		errs = append(errs, c.errs...)
		if names[c.name] {
			errs = append(errs, fmt.Errorf("controller %q: the name is used twice", c.name))
		}
		names[c.name] = true
	}
	names = map[string]bool{}
	for _, r := range m.runnables {
		if names[r.Name] {
			errs = append(errs, fmt.Errorf("runnable %q: the name is used twice", r.Name))
		}
		names[r.Name] = true
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("manager: %w", errors.Join(errs...))
	}
	m.started, m.since, m.host = true, time.Now(), h
	present := m.allClusters()[1:]
	for _, cl := range present {
		cl.member.hosted = true
		for _, c := range m.controllers {
			c.settle(cl)
		}
	}
	return present, nil
}

// startServing starts what work needs until its end.
func (m *Manager) startServing(ctx context.Context, g *group) {
	m.startCluster(ctx, g, m.home)
	m.startServers(ctx, g)
}

// startCluster starts what work on a cluster needs until its end.
func (m *Manager) startCluster(ctx context.Context, g *group, c *Cluster) {
	g.start("cache", func() error { return c.cache.Run(ctx) })
	g.start("events", func() error { return c.events.Run(ctx) })
}

// startWork starts the sources and workers of the controllers, which find work
// as far as this process leads, and what decides that.
func (m *Manager) startWork(ctx context.Context, workers, g *group) {
	var always *term
	if m.elector == nil && m.ring == nil {
		always = m.beginTerm(context.WithoutCancel(ctx), 0, nil) // before the first change comes
	}
	m.startSites(ctx, workers, g, m.home)
	for _, c := range m.controllers {
		if m.home.sites[c] == nil {
			c.metrics.Ready.Set(1) // it has nothing to wait for but members
		}
		for _, s := range c.external {
			g.start("source "+s.name+" of controller "+c.name, func() error { return c.feed(ctx, s) })
		}
	}
	g.start("watchdog", func() error { return m.watchdog(ctx) })
	for _, r := range m.runnables {
		if r.Standby {
			g.start("runnable "+r.Name, func() error { return r.Run(m.withLogger(ctx, "runnable", r.Name)) })
		}
	}
	switch {
	case m.ring != nil:
		g.start("shards", func() error { return m.share(ctx) })
	case m.elector != nil:
		g.start("work", func() error {
			return m.elector.Run(ctx, func(ctx, held context.Context) error { return m.lead(ctx, held, 0, m.elector.Fence) })
		})
	default:
		g.start("work", func() error { return m.serve(ctx, always) })
	}
}

// describe adds to the names of what still runs the reconciles of a shard.
func (m *Manager) describe(names []string, shard int) string {
	for _, s := range m.allSites() {
		for _, r := range s.running.list() {
			if m.leads.shardOf(r.req) == shard {
				names = append(names, fmt.Sprintf("reconcile %s of %s by controller %s since %v", r.id, r.req, s.name, time.Since(r.since).Round(time.Millisecond)))
			}
		}
	}
	return strings.Join(names, ", ")
}
