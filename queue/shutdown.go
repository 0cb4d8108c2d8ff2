package queue

import (
	"context"
	"fmt"
	"time"
)

// ShutDown ends the queue at once: keys that wait are dropped, further adds do nothing, every Get returns ErrShutDown.
// Keys that run are not disturbed; Done takes them back. Calling it again does nothing.
func (q *Queue[K]) ShutDown() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shut {
		return
	}
	q.shut = true
	if q.timer != nil {
		q.timer.Stop()
	}
	q.empty(q.order.slack)
	for _, r := range q.runs {
		e := r.entry
		e.state, e.delay, e.causes, e.failures, e.leaving = resting, nil, nil, 0, false
		e.flow = q.single
		q.single.entries++
		_, hash := q.entries.find(e.key)
		q.entries.insert(e, hash)
	}
	for w := q.waiters.front(); w != nil; w = q.waiters.front() {
		w.place.remove()
		w.ready <- struct{}{}
	}
}

// Drain shuts the queue down and waits until every key that was handed out is Done. It does not work off the
// keys that wait: whoever takes over finds them by listing. The error says what still runs when ctx ends first.
func (q *Queue[K]) Drain(ctx context.Context) error {
	q.ShutDown()
	q.mu.Lock()
	if len(q.runs) == 0 {
		q.mu.Unlock()
		return nil
	}
	if q.drained == nil {
		q.drained = make(chan struct{})
	}
	drained := q.drained
	q.mu.Unlock()
	select {
	case <-drained:
		return nil
	case <-ctx.Done():
	}
	s := q.Snapshot(1)
	if len(s.Running) == 0 {
		return nil
	}
	return fmt.Errorf("drain queue: %d keys still running, the longest, %v, for %v: %w",
		s.Stats.Running, s.Running[0].Key, s.Stats.Longest.Round(time.Millisecond), ctx.Err())
}
