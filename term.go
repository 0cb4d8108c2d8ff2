package setpoint

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/lease"
)

// leadership is which requests this process may reconcile: those of the shards
// that it holds. Without shards there is one, and without leader election that
// one is always held.
type leadership struct {
	count int
	key   func(Request) string

	mu    sync.Mutex
	terms []*term // by shard; nil: not held
}

// term is one time of holding a shard: the reconciles and runnables that run
// under it.
type term struct {
	*group
	shard int
	ctx   context.Context                 // of the reconciles
	kill  context.CancelCauseFunc         // ends it
	fence func() (end time.Time, ok bool) // see lease.Elector.Fence; nil: no lease
}

// termKey finds the term that a context belongs to. Its writes need the lease.
type termKey struct{}

// surelyHeld reports whether the lease that work in ctx needs is held for sure.
func surelyHeld(ctx context.Context) bool {
	t, _ := ctx.Value(termKey{}).(*term)
	if t == nil || t.fence == nil {
		return true
	}
	_, ok := t.fence()
	return ok && t.ctx.Err() == nil
}

func newLeadership(count int, key func(Request) string) *leadership {
	return &leadership{count: count, key: key, terms: make([]*term, count)}
}

// shardOf returns the shard of a request.
func (l *leadership) shardOf(r Request) int {
	if l.count == 1 {
		return 0
	}
	return lease.Shard(l.key(r), l.count)
}

// holds reports whether this process may reconcile a request.
func (l *leadership) holds(r Request) bool { return l.termOf(r) != nil }

// termOf returns the term under which a request may be reconciled, or nil.
func (l *leadership) termOf(r Request) *term {
	shard := l.shardOf(r)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.terms[shard]
}

// holdsShard reports whether this process holds a shard.
func (l *leadership) holdsShard(shard int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.terms[shard] != nil
}

func (l *leadership) set(shard int, t *term) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.terms[shard] = t
}

// beginTerm begins a term: from now on the shard's requests are taken in.
func (m *Manager) beginTerm(held context.Context, shard int, fence func() (time.Time, bool)) *term {
	t := &term{group: newGroup(m.log, nil), shard: shard, fence: fence}
	held, t.kill = context.WithCancelCause(held)
	t.ctx = context.WithValue(held, termKey{}, t)
	m.leads.set(shard, t)
	return t
}

// lead holds a shard: it has the controllers take over what is in it, and
// serves it until ctx or held ends.
func (m *Manager) lead(ctx, held context.Context, shard int, fence func() (time.Time, bool)) error {
	t := m.beginTerm(held, shard, fence)
	for _, c := range m.controllers {
		for _, s := range c.sites() {
			s.takeover.win(shard)
		}
	}
	return m.serve(ctx, t)
}

// serve lets a term last until ctx ends, the lease is lost or a runnable fails.
// Then no reconcile starts any more; those that run get their grace as long as
// the lease lasts, and some time to heed the end of their context. An error that
// wraps lease.ErrNotDrained names what runs even then.
func (m *Manager) serve(ctx context.Context, t *term) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	defer t.kill(nil)
	defer m.forgetLoops(t.shard)
	if t.shard == 0 {
		t.stop = fail
		for _, r := range m.runnables {
			if !r.Standby {
				runCtx := context.WithValue(m.withLogger(ctx, "runnable", r.Name), termKey{}, t)
				t.start("runnable "+r.Name, func() error { return r.Run(runCtx) })
			}
		}
	}
	<-ctx.Done()
	m.leads.set(t.shard, nil)
	t.close()
	t.wait(t.ctx, m.cfg.GracePeriod)
	t.kill(fmt.Errorf("%w: %w", errStopping, context.Cause(ctx)))
	if still := t.wait(context.Background(), killPeriod); len(still) > 0 {
		return errors.Join(t.err(), fmt.Errorf("%w: %s", lease.ErrNotDrained, m.describe(still, t.shard)))
	}
	return t.err()
}

// forgetLoops drops what the controllers know of a shard that is not held any
// more: another replica goes on.
func (m *Manager) forgetLoops(shard int) {
	for _, c := range m.controllers {
		for _, s := range c.sites() {
			s.loops.forget(func(r Request) bool { return m.leads.shardOf(r) == shard && !m.leads.holds(r) })
		}
	}
}
