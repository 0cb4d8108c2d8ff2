package lease

import (
	"context"
	"errors"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// errOver is the cause of the end of held when the work ended before the lease.
var errOver = errors.New("the work that the lease was held for is over")

// hold runs lead and renews the lease until lead has returned. It reports
// whether the lease was lost while there is reason to want it, and lead's error.
func (e *Elector) hold(ctx context.Context, lead Lead) (lost bool, err error) {
	e.log.Info("the lease is held")
	e.metrics.status.Set(1)
	defer e.metrics.status.Set(0)

	// Held outlives ctx: work that is being stopped must be cut short when the
	// lease is lost meanwhile.
	held, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(errOver)
	leadCtx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	done := make(chan error, 1)
	go func() { done <- lead(leadCtx, held) }()

	// So does renewal: the lease must last while lead drains.
	renewCtx, stopRenewal := context.WithCancel(context.WithoutCancel(ctx))
	defer stopRenewal()
	renewed := make(chan struct{})
	lose := sync.OnceFunc(func() {
		e.fence.set(moment{})
		e.metrics.status.Set(0)
		e.log.Error("the lease is lost, stopping the work", "error", ErrLost)
		end(ErrLost)
		stop(ErrLost)
	})
	go func() {
		defer close(renewed)
		if !e.renew(renewCtx, lose) {
			lose()
		}
	}()

	err = <-done
	stopRenewal()
	<-renewed
	lost = errors.Is(context.Cause(held), ErrLost)
	e.fence.set(moment{})
	switch {
	case errors.Is(err, ErrNotDrained):
		e.log.Warn("some work still runs, leaving the lease to expire", "error", err)
	case !lost:
		e.release(context.WithoutCancel(ctx))
	}
	return lost && ctx.Err() == nil, err
}

// renew renews the lease until ctx ends (true) or the lease is lost (false). It
// calls lose when a request does not return in time, whatever its context says.
func (e *Elector) renew(ctx context.Context, lose func()) bool {
	for {
		deadline := e.fence.get().add(e.cfg.RenewDeadline)
		sleep(ctx, min(e.cfg.RetryPeriod, time.Until(deadline.mono)), e.hurry)
		if ctx.Err() != nil {
			return true
		}
		if !e.now().before(deadline) {
			return false
		}
		tryCtx, cancel := context.WithDeadline(ctx, deadline.mono)
		late := time.AfterFunc(time.Until(deadline.mono), lose)
		held := e.renewOnce(tryCtx)
		cancel()
		if inTime := late.Stop(); !held || !inTime {
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
	start := e.now()
	next, err := e.opts.Leases.Update(ctx, e.claim(last, start), metav1.UpdateOptions{})
	if apierrors.IsConflict(err) {
		// Somebody wrote the lease: perhaps only a label, perhaps our own
		// earlier request whose answer was lost.
		e.metrics.slow.Inc()
		last, err = e.opts.Leases.Get(ctx, e.cfg.Name, metav1.GetOptions{})
		if err == nil {
			start = e.now()
			if e.saw(last, start).holder() != e.cfg.Identity {
				return false
			}
			next, err = e.opts.Leases.Update(ctx, e.claim(last, start), metav1.UpdateOptions{})
		}
	}
	if apierrors.IsNotFound(err) {
		return false
	}
	e.took(next, err, start, e.fence.extend)
	return true
}

// release gives the lease up, so that a successor need not wait for it to
// expire. A failure costs only that time.
func (e *Elector) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.RetryPeriod)
	defer cancel()
	// Read first: a renewal that was interrupted may have been written.
	lease, err := e.opts.Leases.Get(ctx, e.cfg.Name, metav1.GetOptions{})
	now := e.now()
	if err == nil && e.saw(lease, now).holder() == e.cfg.Identity {
		if e.remove {
			err = e.opts.Leases.Delete(ctx, e.cfg.Name, asRead(lease))
		} else if lease, err = e.opts.Leases.Update(ctx, released(lease, now.wall), metav1.UpdateOptions{}); err == nil {
			e.saw(lease, now)
		}
	}
	if err != nil {
		e.log.Warn("the lease could not be released; it will expire", "error", err)
		return
	}
	e.log.Info("the lease is released")
}

// asRead makes a deletion succeed only when nobody wrote the object since.
func asRead(lease *coordinationv1.Lease) metav1.DeleteOptions {
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion}}
}
