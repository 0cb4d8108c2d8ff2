package lease

import (
	"sync"
	"time"
)

// fence is the time for which a lease is surely ours.
type fence struct {
	mu      sync.Mutex
	renewed moment // start of the last renewal that succeeded; zero: not held
}

func (f *fence) set(renewed moment) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.renewed = renewed
}

// extend is set for a lease that is held: it does not bring back one that was
// lost while its renewal was under way.
func (f *fence) extend(renewed moment) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.renewed.mono.IsZero() {
		f.renewed = renewed
	}
}

func (f *fence) get() moment {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.renewed
}

// Fence reports whether a write may start now, and by when it must be over, so
// that no successor can be at work yet. It may not when RenewDeadline has passed
// since the last renewal, by the monotonic clock or by the wall clock, or when
// the lease is not held. The end is midway between RenewDeadline and Duration:
// the other half is for a request that the server still works on when its
// sender has given it up.
func (e *Elector) Fence() (end time.Time, ok bool) {
	renewed := e.fence.get()
	if renewed.mono.IsZero() || !e.now().before(renewed.add(e.cfg.RenewDeadline)) {
		return time.Time{}, false
	}
	return renewed.mono.Add((e.cfg.RenewDeadline + e.cfg.Duration) / 2), true
}

// Leading reports whether this process holds the lease.
func (e *Elector) Leading() bool {
	_, ok := e.Fence()
	return ok
}
