package lease

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hold runs lead and renews the lease until lead has returned. It reports
// whether the lease was lost, and lead's error.
func (e *Elector) hold(ctx context.Context, lead func(context.Context) error) (lost bool, err error) {
	e.log.Info("the lease is held")
	e.status.Set(1)
	defer e.status.Set(0)

	leadCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan error, 1)
	go func() { done <- lead(leadCtx) }()

	// Renewal outlives ctx: the lease must hold while lead drains.
	renewCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		if e.renew(renewCtx) {
			return
		}
		e.fence.set(time.Time{})
		e.status.Set(0)
		e.log.Error("the lease is lost, stopping the work", "error", ErrLost)
		cancel(ErrLost)
	}()

	err = <-done
	stop()
	<-renewed
	lost = errors.Is(context.Cause(leadCtx), ErrLost)
	e.fence.set(time.Time{})
	switch {
	case errors.Is(err, ErrNotDrained):
		e.log.Warn("some work still runs, leaving the lease to expire", "error", err)
	case !lost:
		e.release(context.WithoutCancel(ctx))
	}
	return lost && ctx.Err() == nil, err
}

// renew renews the lease until ctx ends (true) or the lease is lost (false).
func (e *Elector) renew(ctx context.Context) bool {
	for {
		deadline := e.fence.get().Add(e.cfg.RenewDeadline)
		sleep(ctx, min(e.cfg.RetryPeriod, time.Until(deadline)))
		if ctx.Err() != nil {
			return true
		}
		if !before(time.Now(), deadline) {
			return false
		}
		tryCtx, cancel := context.WithDeadline(ctx, deadline)
		held := e.renewOnce(tryCtx)
		cancel()
		if !held {
			return false
		}
	}
}

// renewOnce tries to renew and reports false when somebody else holds the
// lease. A failed request is no loss yet.
func (e *Elector) renewOnce(ctx context.Context) bool {
	e.mu.Lock()
	last := e.seen.lease
	e.mu.Unlock()
	start := time.Now()
	next, err := e.opts.Leases.Update(ctx, claimed(last, e.cfg.Identity, e.cfg.Duration, start), metav1.UpdateOptions{})
	if apierrors.IsConflict(err) {
		// Somebody wrote the lease: perhaps only a label, perhaps our own
		// earlier request whose answer was lost.
		last, err = e.opts.Leases.Get(ctx, e.cfg.Name, metav1.GetOptions{})
		if err == nil {
			start = time.Now()
			if e.saw(last, start).holder() != e.cfg.Identity {
				return false
			}
			next, err = e.opts.Leases.Update(ctx, claimed(last, e.cfg.Identity, e.cfg.Duration, start), metav1.UpdateOptions{})
		}
	}
	if apierrors.IsNotFound(err) {
		return false
	}
	e.took(next, err, start)
	return true
}

// release gives the lease up, so that a successor need not wait for it to
// expire. A failure costs only that time.
func (e *Elector) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.RetryPeriod)
	defer cancel()
	// Read first: a renewal that was interrupted may have been written.
	lease, err := e.opts.Leases.Get(ctx, e.cfg.Name, metav1.GetOptions{})
	if err == nil && e.saw(lease, time.Now()).holder() == e.cfg.Identity {
		lease, err = e.opts.Leases.Update(ctx, released(lease, time.Now()), metav1.UpdateOptions{})
	}
	if err != nil {
		e.log.Warn("the lease could not be released; it will expire", "error", err)
		return
	}
	e.saw(lease, time.Now())
	e.log.Info("the lease is released")
}
