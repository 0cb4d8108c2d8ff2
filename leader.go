package setpoint

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	eventsclient "k8s.io/client-go/kubernetes/typed/events/v1"

	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/event"
	"github.com/setpoint-dev/setpoint/lease"
)

// errFenced is the cause of writes that are refused because the lease is not
// surely held any more.
var errFenced = errors.New("the lease is not held, so that another replica may be at work")

func (m *Manager) makeEvents(c *Cluster) error {
	cfg := event.Config{
		Scheme: m.cfg.Scheme, Instance: m.instance(), Random: m.random,
		Logger: m.log, Metrics: c.metrics,
	}
	if !m.cfg.DryRun {
		events, err := eventsclient.NewForConfigAndClient(c.rest, c.http)
		if err != nil {
			return fmt.Errorf("client of Events: %w", err)
		}
		cfg.Client = events
	}
	sink, err := event.NewSink(cfg)
	if err != nil {
		return fmt.Errorf("events: %w", err)
	}
	c.events = sink
	return nil
}

// makeLeadership makes what decides which shards this process holds: a ring, an
// elector for the only one, or nothing.
func (m *Manager) makeLeadership() error {
	if m.cfg.LeaderElection == nil && m.cfg.Shards == nil {
		m.leads = newLeadership(1, nil)
		return nil
	}
	leases, err := coordinationclient.NewForConfigAndClient(m.home.rest, m.home.http)
	if err != nil {
		return fmt.Errorf("client of Leases: %w", err)
	}
	options := func(namespace string) lease.Options {
		return lease.Options{
			Leases: leases.Leases(namespace), Logger: m.log, Metrics: m.cfg.Metrics,
			Jitter: func() float64 { return float64(m.random()>>11) / (1 << 53) },
			Wall:   func() time.Time { return m.wall() },
		}
	}
	if cfg := m.cfg.LeaderElection; cfg != nil {
		m.leads = newLeadership(1, nil)
		if m.elector, err = lease.New(*cfg, options(cfg.Namespace)); err != nil {
			return err
		}
		m.readyz.Add("leader-election", m.electionCheck)
		return nil
	}
	shards := m.cfg.Shards
	m.leads = newLeadership(shards.Count, shards.Key)
	if m.ring, err = lease.NewRing(shards.Lease, shards.Count, options(shards.Lease.Namespace)); err != nil {
		return err
	}
	m.readyz.Add("shards", m.shardsCheck)
	return nil
}

func (m *Manager) electionCheck() (string, error) {
	holder, err := m.elector.Holder()
	if m.elector.Leading() {
		return "leading", nil
	}
	return "standby of " + holder, err
}

func (m *Manager) shardsCheck() (string, error) {
	members, err := m.ring.Members()
	held := m.ring.Held()
	if len(held) > 0 {
		err = nil
	}
	return fmt.Sprintf("holds %d of %d shards %v; members %s", len(held), m.leads.count, held, strings.Join(members, ", ")), err
}

// gate is where every request of a cluster's client passes. It refuses those to a
// cluster that was removed, logs the writes of a dry run instead of sending them,
// and fences the writes of work that needs a lease: they start only while it is
// surely held, and end before another replica can take it.
func (m *Manager) gate(ctx context.Context, c *Cluster, r client.Request, send func(context.Context) error) error {
	if c.ended() {
		return errRemoved
	}
	if !r.Write() {
		return m.tracer.read(ctx, r, send)
	}
	c.observeWrite(ctx, r)
	if m.cfg.DryRun {
		Logger(ctx).Info("dry run: write not sent", "verb", r.Verb, "resource", r.Resource.String(),
			"subresource", r.Subresource, "namespace", r.Namespace, "name", r.Name)
		return client.ErrNotSent
	}
	t, _ := ctx.Value(termKey{}).(*term)
	if t == nil || t.fence == nil {
		return send(ctx)
	}
	end, ok := t.fence()
	if !ok || t.ctx.Err() != nil {
		return errFenced
	}
	ctx, cancel := context.WithDeadlineCause(ctx, end, errFenced)
	defer cancel()
	err := send(ctx)
	if err != nil && errors.Is(context.Cause(ctx), errFenced) {
		err = fmt.Errorf("%w: %w", errFenced, err)
	}
	return err
}
