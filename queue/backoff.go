package queue

import (
	"math"
	"time"
)

// Backoff spaces the retries of one key: Base after the first failure, twice as long after each further one, never more
// than Max.
type Backoff struct {
	Base time.Duration // zero means 5 ms
	Max  time.Duration // zero means 1000 s
}

func (b Backoff) withDefaults() Backoff {
	if b.Base <= 0 {
		b.Base = 5 * time.Millisecond
	}
	if b.Max <= 0 {
		b.Max = 1000 * time.Second
	}
	return b
}

// after returns the wait before the retry that follows so many failures, at least one.
func (b Backoff) after(failures int32) time.Duration {
	wait := b.Base
	for ; failures > 1 && wait < b.Max; failures-- {
		wait *= 2
		if wait <= 0 {
			return b.Max
		}
	}
	return min(wait, b.Max)
}

// A Bucket limits how many retries start, over all keys: Burst at once, and Rate per second in the long run.
type Bucket struct {
	Rate  float64 // zero means no limit
	Burst int     // zero means 1
}

// tokens is the state of a Bucket. It counts in whole nanoseconds, so that the moment it promises for the next token is
// exactly the moment at which it has one.
type tokens struct {
	interval int64 // between two tokens; 0: no limit
	saved    int64 // how far the next token may be taken ahead of its time: burst - 1 intervals
	next     int64 // when the next token would come if none were saved
}

func newTokens(b Bucket) tokens {
	if b.Rate <= 0 {
		return tokens{}
	}
	interval := int64(math.Max(1, float64(time.Second)/b.Rate))
	return tokens{interval: interval, saved: interval * int64(max(b.Burst, 1)-1)}
}

// at returns the time from which a token can be taken.
func (t *tokens) at() int64 { return t.next - t.saved }

// take takes a token at the given time, which must not be before at().
func (t *tokens) take(now int64) { t.next = max(t.next, now) + t.interval }
