package store

import (
	"container/heap"
	"time"
)

// expireBatch is the number of objects removed before other writers get their turn.
const expireBatch = 100

// expiry says that the object at key may be due at a time: it is when its record says so, as it may have been written again.
type expiry struct {
	at  time.Time
	key string
}

// expiries is the queue of objects with a time to live, with one timer for the first of them. Each write of such an object
// adds an element, which stays until its time. Store.mu guards it.
type expiries struct {
	queue expiryHeap
	timer *time.Timer
}

func (e *expiries) add(x expiry, due func()) {
	heap.Push(&e.queue, x)
	if e.queue[0] == x {
		e.reset(due)
	}
}

// reset makes due run when the first object is due.
func (e *expiries) reset(due func()) {
	if len(e.queue) == 0 {
		return
	}
	wait := time.Until(e.queue[0].at)
	if e.timer == nil {
		e.timer = time.AfterFunc(wait, due)
	} else {
		e.timer.Reset(wait)
	}
}

func (e *expiries) stop() {
	if e.timer != nil {
		e.timer.Stop()
	}
	e.queue = nil
}

// expire deletes the objects that are due.
func (s *Store) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	now := time.Now()
	for range expireBatch {
		if len(s.expiries.queue) == 0 || s.expiries.queue[0].at.After(now) {
			break
		}
		x := heap.Pop(&s.expiries.queue).(expiry)
		r, revision, ok := s.table.Snapshot().Get(x.key)
		if ok && !r.expires.IsZero() && !r.expires.After(now) {
			// Cannot fail: nobody else writes while we hold the lock.
			_, _ = s.writeLocked(x.key, revision, nil, false)
		}
	}
	s.expiries.reset(s.expire)
}

type expiryHeap []expiry

func (h expiryHeap) Len() int { return len(h) }
func (h expiryHeap) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].key < h[j].key
}
func (h expiryHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *expiryHeap) Push(x any)   { *h = append(*h, x.(expiry)) }
func (h *expiryHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	(*h)[last] = expiry{}
	*h = (*h)[:last]
	return x
}
