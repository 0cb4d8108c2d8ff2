package queue

import (
	"cmp"
	"slices"
	"time"
)

// Stats are the queue's figures at one moment. The counters among them only ever grow.
type Stats struct {
	Ready      [Classes]int  // keys that could run now, by class
	Delayed    int           // keys that have a plan or a retry whose time has not come
	Throttled  int           // keys whose retry is due and waits for the bucket
	Rerun      int           // keys that run and will run once more
	Running    int           // keys that are handed out and not done
	Unfinished time.Duration // ages of all running keys together
	Longest    time.Duration // age of the key that runs longest

	Adds    uint64 // how often a key became able to run (counter)
	Merged  uint64 // how often a key that could run already was asked for again (counter)
	Retries uint64 // how often AddRateLimited was called (counter)
}

// Stats returns the queue's figures. It takes time in proportion to the number of running keys.
func (q *Queue[K]) Stats() Stats {
	now := q.clock()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tick(now)
	return q.stats()
}

func (q *Queue[K]) stats() Stats {
	s := Stats{
		Ready:     q.order.ready,
		Delayed:   len(q.agenda.heap),
		Throttled: q.throttled,
		Rerun:     q.reruns,
		Running:   len(q.runs),
		Adds:      q.adds,
		Merged:    q.merged,
		Retries:   q.retries,
	}
	for _, r := range q.runs {
		age := time.Duration(q.now - r.since)
		s.Unfinished += age
		s.Longest = max(s.Longest, age)
	}
	return s
}

// A Snapshot is what the queue holds at one moment, for people who look for what is stuck.
type Snapshot[K comparable] struct {
	Stats   Stats
	Running []Running[K] // longest first
	Waiting []Waiting[K] // by Due
}

// Running is a key that was handed out and is not done.
type Running[K comparable] struct {
	Key    K
	Since  time.Time
	Age    time.Duration
	Causes []Cause // why it runs
	Rerun  bool    // it will run once more
}

// Waiting is a key that waits: for a worker, for its time, or for a token of the bucket. A key that also runs is found
// under Running.
type Waiting[K comparable] struct {
	Key      K
	Flow     string
	State    string // "ready", "delayed" or "throttled"
	Class    Class
	Causes   []Cause
	Failures int
	// Since is when it became able to run, or the zero time when it did not yet.
	Since time.Time
	// Due is when its slack is used up (ready), when its time comes (delayed), or when the next token is to be had
	// (throttled).
	Due time.Time
}

// The states of a Waiting.
const (
	stateReady     = "ready"
	stateDelayed   = "delayed"
	stateThrottled = "throttled"
)

// Snapshot returns the keys that run and those that wait, of each the first limit in the order stated there. It holds
// the queue's lock meanwhile; that takes some milliseconds when a million keys are delayed or throttled, and else time in
// proportion to limit and to the number of flows.
func (q *Queue[K]) Snapshot(limit int) Snapshot[K] {
	now := q.clock()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tick(now)
	s := Snapshot[K]{Stats: q.stats()}

	runs := first[run[K]]{limit: limit, compare: func(a, b run[K]) int { return cmp.Compare(a.since, b.since) }}
	for _, r := range q.runs {
		runs.offer(r)
	}
	for _, r := range runs.result() {
		s.Running = append(s.Running, q.describeRun(r))
	}
	for _, w := range q.firstWaiting(limit) {
		s.Waiting = append(s.Waiting, q.describe(w))
	}
	return s
}

// Find returns how one key stands: its run and what waits of it, nil for what there is not. Unlike in a Snapshot, what is
// planned for a key that runs is among what waits.
func (q *Queue[K]) Find(key K) (*Running[K], *Waiting[K]) {
	now := q.clock()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tick(now)
	e, _ := q.entries.find(key)
	if e == nil {
		return nil, nil
	}
	var runs *Running[K]
	if e.running() {
		r := q.describeRun(q.runs[e.run])
		runs = &r
	}
	var w waiting[K]
	switch {
	case e.state == early || e.state == due:
		w = waiting[K]{e, stateReady, e.deadline}
	case e.delay == nil:
		return runs, nil
	case e.delay.throttled:
		w = waiting[K]{e, stateThrottled, q.bucket.at()}
	default:
		w = waiting[K]{e, stateDelayed, min(e.delay.plan, e.delay.retry)}
	}
	waits := q.describe(w)
	return runs, &waits
}

func (q *Queue[K]) describeRun(r run[K]) Running[K] {
	return Running[K]{
		Key:    r.entry.key,
		Since:  q.wallTime(r.since),
		Age:    time.Duration(q.now - r.since),
		Causes: slices.Clone(r.causes),
		Rerun:  r.entry.state == rerun,
	}
}

// waiting is an entry that waits, and until when.
type waiting[K comparable] struct {
	entry *entry[K]
	state string
	due   int64
}

func (q *Queue[K]) firstWaiting(limit int) []waiting[K] {
	found := first[waiting[K]]{limit: limit, compare: func(a, b waiting[K]) int { return cmp.Compare(a.due, b.due) }}
	offer := func(entries *list[entry[K]], state string, due func(*entry[K]) int64) {
		n := 0
		for e := range entries.all {
			if n++; n > limit {
				return
			}
			found.offer(waiting[K]{e, state, due(e)})
		}
	}
	deadline := func(e *entry[K]) int64 { return e.deadline }
	for f := range q.order.due.all {
		offer(&f.due, stateReady, deadline)
	}
	for class := range q.order.byClass {
		offer(&q.order.byClass[class], stateReady, deadline)
	}
	// What is planned for a key that is ready or runs is no news.
	for f := range q.throttledFlows.all {
		for e := range f.throttled.all {
			if e.state == resting && !e.running() {
				found.offer(waiting[K]{e, stateThrottled, q.bucket.at()})
			}
		}
	}
	for _, a := range q.agenda.heap {
		if e := a.entry; e.state == resting && !e.running() && !e.delay.throttled {
			found.offer(waiting[K]{e, stateDelayed, a.at})
		}
	}
	return found.result()
}

func (q *Queue[K]) describe(w waiting[K]) Waiting[K] {
	e := w.entry
	d := Waiting[K]{
		Key:      e.key,
		Flow:     e.flow.name,
		State:    w.state,
		Class:    e.class,
		Causes:   slices.Clone(e.causes),
		Failures: int(e.failures),
		Due:      q.wallTime(w.due),
	}
	switch {
	case w.state == stateReady:
		d.Since = q.wallTime(e.added)
		return d
	case w.state == stateDelayed && e.delay.plan == w.due:
		d.Class = Planned
	default:
		d.Class = Retry
	}
	d.Causes = slices.Clone(e.delay.causes)
	return d
}

// first keeps the smallest of what it is offered, at most limit, and among equals those offered first.
type first[T any] struct {
	limit   int
	compare func(a, b T) int
	kept    []T
	full    bool // kept[:limit] is sorted and everything behind it is smaller than its last
}

func (f *first[T]) offer(t T) {
	if f.limit <= 0 || f.full && f.compare(t, f.kept[f.limit-1]) >= 0 {
		return
	}
	f.kept = append(f.kept, t)
	if len(f.kept) >= 2*f.limit {
		f.cut()
		f.full = true
	}
}

func (f *first[T]) cut() {
	slices.SortStableFunc(f.kept, f.compare)
	f.kept = f.kept[:min(len(f.kept), max(f.limit, 0))]
}

func (f *first[T]) result() []T {
	f.cut()
	return f.kept
}
