package setpoint

import (
	"context"
	"errors"
	"fmt"
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

// fencedKey marks contexts whose writes need the lease.
type fencedKey struct{}

func (m *Manager) makeEvents() error {
	cfg := event.Config{
		Scheme: m.cfg.Scheme, Instance: m.instance(), Random: m.random,
		Logger: m.log, Metrics: m.cfg.Metrics,
	}
	if !m.cfg.DryRun {
		events, err := eventsclient.NewForConfigAndClient(m.cfg.REST, m.http)
		if err != nil {
			return fmt.Errorf("client of Events: %w", err)
		}
		cfg.Client = events
	}
	sink, err := event.NewSink(cfg)
	if err != nil {
		return fmt.Errorf("events: %w", err)
	}
	m.events = sink
	return nil
}

func (m *Manager) makeElector() error {
	if m.cfg.LeaderElection == nil {
		return nil
	}
	leases, err := coordinationclient.NewForConfigAndClient(m.cfg.REST, m.http)
	if err != nil {
		return fmt.Errorf("client of Leases: %w", err)
	}
	cfg := *m.cfg.LeaderElection
	m.elector, err = lease.New(cfg, lease.Options{
		Leases: leases.Leases(cfg.Namespace), Logger: m.log, Metrics: m.cfg.Metrics,
		Jitter: func() float64 { return float64(m.random()>>11) / (1 << 53) },
	})
	if err != nil {
		return err
	}
	m.readyz.Add("leader-election", func() (string, error) {
		holder, err := m.elector.Holder()
		if m.elector.Leading() {
			return "leading", nil
		}
		return "standby of " + holder, err
	})
	return nil
}

// gate is where every request of the client passes. It logs the writes of a dry
// run instead of sending them, and fences the writes of work that needs the
// lease: they start only while it is surely held, and end before another replica
// can take it.
func (m *Manager) gate(ctx context.Context, r client.Request, send func(context.Context) error) error {
	if !r.Write() {
		return send(ctx)
	}
	m.observeWrite(ctx, r)
	if m.cfg.DryRun {
		Logger(ctx).Info("dry run: write not sent", "verb", r.Verb, "resource", r.Resource.String(),
			"subresource", r.Subresource, "namespace", r.Namespace, "name", r.Name)
		return client.ErrNotSent
	}
	if m.elector == nil || ctx.Value(fencedKey{}) == nil {
		return send(ctx)
	}
	_, end, ok := m.elector.Fence(time.Now())
	if !ok {
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
