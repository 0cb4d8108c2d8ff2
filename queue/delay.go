package queue

import "time"

// A delay is what an entry has planned for later. A plan and a retry are kept apart because only a retry needs a token
// of the bucket. It is dropped as soon as the key is due or runs: that run stands for all that was planned.
type delay[K comparable] struct {
	plan      int64 // when AddAfter asked to run; never if it did not
	retry     int64 // when the back-off ends; never if there is none or it has ended
	throttled bool  // the back-off has ended and the retry waits for a token
	causes    []Cause
	index     int            // in Queue.agenda, or -1
	node      node[entry[K]] // in flow.throttled
}

// AddAfter plans the key for d from now, as work of class Planned; with d <= 0 it is Add with that class. A key has at most
// one plan: of several the earliest holds. A key that becomes due or runs before its plan does so in place of it, and
// the plan is gone with its cause: whoever still needs it plans anew, as a reconciler does with each result.
// Failures are left alone.
func (q *Queue[K]) AddAfter(key K, d time.Duration, cause Cause) {
	if d <= 0 {
		q.Add(key, Planned, cause)
		return
	}
	now := q.clock()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shut {
		return
	}
	q.tick(now)
	q.postpone(q.entry(key), later(q.now, d), never, cause)
	q.dispatch()
	q.arm()
}

// AddRateLimited counts a failure of the key and plans it for the end of its back-off, as work of class Retry. When the
// queue has a bucket, the retry takes a token then, or waits for one. A key that is due or planned earlier runs earlier:
// a fresh change does not wait for the back-off of the failures before it, and does not undo them either.
func (q *Queue[K]) AddRateLimited(key K, cause Cause) {
	now := q.clock()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shut {
		return
	}
	q.tick(now)
	e := q.entry(key)
	if e.failures < maxFailures {
		e.failures++
	}
	q.retries++
	q.postpone(e, never, later(q.now, q.backoff.after(e.failures)), cause)
	q.dispatch()
	q.arm()
}

// maxFailures is where the count of failures stops.
const maxFailures = 1 << 30

// Forget sets the failures of the key to zero: its next back-off is the shortest. A retry that is planned already stays.
func (q *Queue[K]) Forget(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e, _ := q.entries.find(key); e != nil && e.failures > 0 {
		e.failures = 0
		q.release(e)
	}
}

// later returns the time d after now, or the last one there is.
func later(now int64, d time.Duration) int64 {
	if at := now + int64(d); at > 0 {
		return at
	}
	return never - 1
}

// postpone keeps the earlier of what is planned and what is asked for.
func (q *Queue[K]) postpone(e *entry[K], plan, retry int64, cause Cause) {
	if e.state == due {
		return
	}
	d := e.delay
	if d == nil {
		d = &delay[K]{plan: never, retry: never, index: -1}
		d.node.owner = e
		e.delay = d
	}
	d.plan = min(d.plan, plan)
	if !d.throttled {
		d.retry = min(d.retry, retry)
	}
	d.causes = merge(d.causes, &cause, q.wallTime(q.now))
	q.agenda.set(e, min(d.plan, d.retry))
}

// fire is called at the time of the first of what the entry has planned.
func (q *Queue[K]) fire(e *entry[K], at int64) {
	d := e.delay
	if d.plan <= at {
		d.plan = never
		q.expire(e, Planned, at)
		return
	}
	d.retry = never
	if q.bucket.interval == 0 {
		q.expire(e, Retry, at)
		return
	}
	if q.throttled == 0 && q.bucket.at() <= at {
		q.bucket.take(at)
		q.expire(e, Retry, at)
		return
	}
	d.throttled = true
	q.throttled++
	f := e.flow
	if f.throttled.empty() {
		q.throttledFlows.push(&f.inThrottled)
	}
	f.throttled.push(&d.node)
	q.agenda.set(e, d.plan)
}

// grant gives a token to the retry whose turn it is. The flows take turns here as they do in the order of work.
func (q *Queue[K]) grant(at int64) {
	f := q.throttledFlows.front()
	e := f.throttled.front()
	q.unthrottle(e)
	if !f.throttled.empty() {
		f.inThrottled.remove()
		q.throttledFlows.push(&f.inThrottled)
	}
	q.bucket.take(at)
	q.expire(e, Retry, at)
}

// expire turns what was planned into work, and keeps what is planned for later still.
func (q *Queue[K]) expire(e *entry[K], class Class, at int64) {
	d := e.delay
	for i := range d.causes {
		e.causes = merge(e.causes, &d.causes[i], d.causes[i].Last)
	}
	d.causes = nil
	if d.plan == never && d.retry == never && !d.throttled {
		q.cancel(e)
	} else {
		q.agenda.set(e, min(d.plan, d.retry))
	}
	q.arrive(e, class, at)
}

// cancel drops all that the entry has planned.
func (q *Queue[K]) cancel(e *entry[K]) {
	d := e.delay
	if d == nil {
		return
	}
	if d.throttled {
		q.unthrottle(e)
	}
	q.agenda.set(e, never)
	e.delay = nil
}

func (q *Queue[K]) unthrottle(e *entry[K]) {
	e.delay.throttled = false
	e.delay.node.remove()
	q.throttled--
	if e.flow.throttled.empty() {
		e.flow.inThrottled.remove()
	}
}
