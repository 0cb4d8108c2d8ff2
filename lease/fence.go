package lease

import (
	"sync"
	"time"
)

// fence is the time for which a lease is surely ours.
type fence struct {
	mu      sync.Mutex
	renewed time.Time // start of the last renewal that succeeded; zero: not held
}

func (f *fence) set(renewed time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.renewed = renewed
}

func (f *fence) get() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.renewed
}

// before reports whether now is before t by the monotonic clock and by the wall
// clock: the first stands still while a machine sleeps, the second can be set.
func before(now, t time.Time) bool {
	return now.Before(t) && now.Round(0).Before(t.Round(0))
}
