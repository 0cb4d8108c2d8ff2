package cache

import (
	"context"
	"time"
)

// backoff is how long to wait after failures in a row: 0.8 s, doubled up to 15 s, and up to as much again at
// random, so that clients which failed together do not come back together.
type backoff struct{ base time.Duration }

const (
	firstBackoff = 800 * time.Millisecond
	lastBackoff  = 15 * time.Second
)

// next returns the next wait; random is in [0,1).
func (b *backoff) next(random float64) time.Duration {
	b.base = min(max(2*b.base, firstBackoff), lastBackoff)
	return b.base + time.Duration(random*float64(b.base))
}

// sleep waits for d or the end of ctx.
func (c *Cache) sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// random returns the jitter's next number in [0,1).
func (c *Cache) random() float64 {
	c.randMu.Lock()
	defer c.randMu.Unlock()
	return c.rand.Float64()
}
