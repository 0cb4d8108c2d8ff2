package setpoint

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/queue"
)

// memberTimeout bounds each request to a member whose REST config sets no
// Timeout. Watches have bounds of their own.
const memberTimeout = 30 * time.Second

// errRemoved is the cause of the end of what worked on a cluster that was
// removed.
var errRemoved = errors.New("the cluster was removed from the manager")

// ClusterConfig says how to reach a cluster that is added to a manager. All else
// is as in the manager's Config.
type ClusterConfig struct {
	// REST reaches the API server. Required. Without a Timeout each request is
	// bounded to 30 seconds, so that a server which accepts connections but
	// never answers holds a reconcile no longer than that.
	REST *rest.Config
	// Mapper maps kinds to resources. Nil: the server's discovery.
	Mapper meta.RESTMapper
}

// membership is what a cluster that was added has more than the manager's own.
type membership struct {
	open   bool                    // it can be worked with; guarded by Manager.mu
	hosted bool                    // it runs, or ran; guarded by Manager.mu
	ctx    context.Context         // ends when it is removed
	leave  context.CancelCauseFunc // ends ctx
	alive  context.Context         // of the reconciles; ends later, when their grace is over
	kill   context.CancelCauseFunc // ends alive
	done   chan struct{}           // closed when all of it has ended or was given up
	still  func() []string         // what still runs of it
	err    error                   // what was given up; to be read when done
}

// AddCluster adds a cluster to those that the controllers work on, before or
// while the manager runs. Those that are In it begin to watch there. It neither
// sends nor awaits a request: a cluster that cannot be reached is not ready, is
// named in /readyz and in the log, and heals when it can. The name is the
// Request.Cluster of its objects and the label of its metrics; it must be a DNS
// subdomain that no other cluster has.
//
// Every replica must add the same clusters. Leases are held in the manager's own
// cluster and concern all.
func (m *Manager) AddCluster(name string, cfg ClusterConfig) error {
	c, err := m.reserve(name)
	if err != nil {
		return fmt.Errorf("add cluster %q: %w", name, err)
	}
	if err := m.equip(c, cfg); err != nil {
		m.forget(c)
		return fmt.Errorf("add cluster %q: %w", name, err)
	}
	m.mu.Lock()
	c.member.open = true
	host := m.host
	c.member.hosted = host != nil
	if host != nil {
		for _, controller := range m.controllers {
			controller.settle(c)
		}
	}
	m.mu.Unlock()
	m.showMembers.Do(func() { m.readyz.Add("clusters", m.clustersCheck) })
	if host != nil && !host.start("cluster "+name, func() error { return m.runMember(host, c) }) {
		m.abandon(c)
		return fmt.Errorf("add cluster %q: the manager is stopping", name)
	}
	m.log.Info("cluster added", "cluster", name)
	return nil
}

// reserve takes a name for a new member.
func (m *Manager) reserve(name string) (*Cluster, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if old := m.members[name]; old != nil {
		if old.member.open || !old.member.over() {
			return nil, errors.New("there is a cluster of that name already; remove it first")
		}
		if still := old.member.still(); len(still) > 0 {
			return nil, fmt.Errorf("of the removed cluster of that name this still runs: %s", strings.Join(still, ", "))
		}
	}
	c := &Cluster{name: name, member: &membership{done: make(chan struct{}), still: func() []string { return nil }}}
	c.member.ctx, c.member.leave = context.WithCancelCause(context.Background())
	c.member.alive, c.member.kill = context.WithCancelCause(context.Background())
	m.members[name] = c
	return c, nil
}

// over reports whether a removed cluster has ended or was given up.
func (s *membership) over() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// equip makes what a member needs and sets it up.
func (m *Manager) equip(c *Cluster, cfg ClusterConfig) error {
	if cfg.REST == nil {
		return errors.New("ClusterConfig.REST is missing: give the configuration that reaches the API server")
	}
	cfg.REST = m.cfg.ownREST(cfg.REST)
	if cfg.REST.Timeout == 0 {
		cfg.REST.Timeout = memberTimeout
	}
	if err := m.connect(c, cfg); err != nil {
		return err
	}
	if err := m.makeEvents(c); err != nil {
		return err
	}
	ready := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "setpoint_cluster_ready",
		Help: "Whether the controllers can work in an added cluster: all their sources are listed and no watch is interrupted; 1 or 0.",
	}, func() float64 {
		if m.problemOf(c) != nil {
			return 0
		}
		return 1
	})
	if err := c.metrics.Register(ready); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	m.mu.Lock()
	setups := m.setups[:len(m.setups):len(m.setups)]
	m.mu.Unlock()
	for _, setup := range setups {
		if err := setup(c); err != nil {
			return err
		}
	}
	return nil
}

// forget frees the name of a member that never worked.
func (m *Manager) forget(c *Cluster) {
	if c.metrics != nil {
		c.metrics.drop()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.members, c.name)
}

// abandon ends a member that comes when the manager is stopping.
func (m *Manager) abandon(c *Cluster) {
	m.mu.Lock()
	c.member.open = false
	m.mu.Unlock()
	m.depart(c)
	m.forget(c)
	close(c.member.done)
}

// RemoveCluster ends all work on a cluster that was added and frees what it
// took. No reconcile of its objects begins any more; those that run get the grace
// period, but no longer than ctx lasts, then their context is cancelled. When it
// returns they have ended, and the name may be used again; otherwise the error
// says what still runs. It must not be called by a reconcile of that cluster,
// which would wait for itself.
//
// Objects in the cluster are left as they are.
func (m *Manager) RemoveCluster(ctx context.Context, name string) error {
	m.mu.Lock()
	c := m.clusterNamed(name)
	if c == nil || c.member == nil {
		m.mu.Unlock()
		return fmt.Errorf("remove cluster %q: it is not one of those that were added", name)
	}
	c.member.open = false
	hosted := c.member.hosted
	m.mu.Unlock()
	c.member.leave(errRemoved)
	if !hosted {
		c.member.kill(errRemoved)
		m.forget(c)
		close(c.member.done) // only now may another take the name
		m.log.Info("cluster removed", "cluster", name)
		return nil
	}
	defer context.AfterFunc(ctx, func() { c.member.kill(fmt.Errorf("%w: %w", errRemoved, context.Cause(ctx))) })()
	<-c.member.done
	if c.member.err != nil {
		return fmt.Errorf("remove cluster %q: %w", name, c.member.err)
	}
	m.log.Info("cluster removed", "cluster", name)
	return nil
}

// host is what members run in.
type host struct {
	*group
	ctx context.Context // ends when the manager stops
}

// runMember keeps a member at work until it is removed or the manager stops, and
// ends all of it in order: no new reconcile, grace for those that run, then the
// cache.
func (m *Manager) runMember(h *host, c *Cluster) error {
	defer close(c.member.done)
	running, stop := context.WithCancelCause(h.ctx)
	defer stop(nil)
	defer context.AfterFunc(c.member.ctx, func() { stop(errRemoved) })()
	serving, stopServing := context.WithCancel(context.WithoutCancel(h.ctx))
	defer stopServing()
	base, workers := newGroup(m.log, h.stop), newGroup(m.log, h.stop)
	m.startCluster(serving, base, c)
	m.startSites(running, workers, workers, c)

	<-running.Done()
	workers.wait(c.member.alive, m.cfg.GracePeriod)
	c.member.kill(fmt.Errorf("%w: %w", errStopping, context.Cause(running)))
	still := workers.wait(serving, killPeriod)
	stopServing()
	still = append(still, base.wait(context.Background(), killPeriod)...)
	closeIdle(c.http.Transport)
	m.depart(c)
	if len(still) == 0 {
		m.forget(c)
		return errors.Join(workers.err(), base.err())
	}
	c.member.err = fmt.Errorf("this still runs: %s", strings.Join(still, ", "))
	c.member.still = func() []string { return append(workers.names(), base.names()...) }
	if h.ctx.Err() != nil {
		return c.member.err
	}
	return nil // RemoveCluster tells it
}

// depart takes what a member counted into what is shown.
func (m *Manager) depart(c *Cluster) {
	c.metrics.drop()
	m.mu.Lock()
	defer m.mu.Unlock()
	for controller, s := range c.sites {
		past := s.queue.Stats()
		controller.past = addStats(controller.past, queue.Stats{Adds: past.Adds, Merged: past.Merged, Retries: past.Retries})
		if s.works {
			controller.metrics.MaxWorkers.Sub(float64(controller.workers))
		}
	}
	clear(c.sites)
}
