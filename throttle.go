package setpoint

import (
	"context"
	"time"

	"github.com/setpoint-dev/setpoint/queue"
)

// throttle spaces the reconciles of a controller in a cluster: so many per second in the long
// run, and a burst at once after a rest. Workers take turns at the queue, so that
// the order of what waits is decided at the moment when something may run.
type throttle struct {
	turn     chan struct{} // has room for the worker whose turn it is
	interval time.Duration
	slack    time.Duration // by how much a burst may be ahead of its time
	due      time.Time     // of the next reconcile, if all kept to the interval
}

// newThrottle returns a throttle for a rate above 0 and a burst of at least 1, and
// nil for the zero bucket.
func newThrottle(rate queue.Bucket) *throttle {
	if rate.Rate == 0 {
		return nil
	}
	interval := time.Duration(float64(time.Second) / rate.Rate)
	return &throttle{turn: make(chan struct{}, 1), interval: interval, slack: time.Duration(rate.Burst-1) * interval}
}

// next calls get when one more reconcile may start and counts it, unless ctx
// ends first or get fails. A nil throttle calls get at once.
func (t *throttle) next(ctx context.Context, get func() error) error {
	if t == nil {
		return get()
	}
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if !sleep(ctx, time.Until(t.due.Add(-t.slack))) {
		return ctx.Err()
	}
	if err := get(); err != nil {
		return err
	}
	if now := time.Now(); t.due.Before(now) {
		t.due = now
	}
	t.due = t.due.Add(t.interval)
	return nil
}
