package queue

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrShutDown is what Get returns once ShutDown or Drain was called.
var ErrShutDown = errors.New("queue is shut down")

// A Config is what a queue is made from. The zero value is ready to use: one flow, the default back-off and slacks,
// no overall limit on retries.
type Config[K comparable] struct {
	// Flow names the flow that a key belongs to. Flows share the queue fairly: a flow with a great many waiting keys
	// delays the others no more than one with a few. Nil puts all keys in one flow. It must always answer the same for
	// the same key and must not call the queue.
	Flow func(K) string
	// Slack is how much later than a fresh change each class of work may start.
	Slack Slack
	// Backoff spaces the retries of one key.
	Backoff Backoff
	// Retries limits the retries of all keys together.
	Retries Bucket
	// Waited, when set, is called for each key that is handed out, with its class and the time that it waited although
	// it could run.
	Waited func(Class, time.Duration)
	// Worked, when set, is called for each Done, with the time since the key was handed out.
	Worked func(time.Duration)
}

// An Item is a key that was handed out, with all that is known about why.
type Item[K comparable] struct {
	Key K
	// Causes are the reasons for this run, in the order in which they first came, merged as [Cause] says. They are
	// shared with Snapshot: do not write to them.
	Causes []Cause
	// Class is the most urgent class that the key was added with since it last ran.
	Class Class
	// Failures is the number of AddRateLimited calls since the last Forget.
	Failures int
	// Added is when the key became able to run.
	Added time.Time
}

// A Queue hands keys to workers. All its methods may be called from several goroutines at once. The package
// comment states what it guarantees.
type Queue[K comparable] struct {
	flowOf  func(K) string
	backoff Backoff
	waited  func(Class, time.Duration)
	worked  func(time.Duration)
	start   time.Time // the zero of all times below

	mu sync.Mutex // guards all that follows
	// now is the time up to which everything that time alone brings about has happened.
	now  int64
	wall wallClock

	entries     table[K]
	leaving     []*entry[K] // entries to drop if they are idle, up to the capacity
	freeEntries []*entry[K]
	flows       map[string]*flow[K]
	freeFlows   []*flow[K]
	single      *flow[K] // the flow of all keys when Config.Flow is nil

	order order[K]

	agenda         agenda[K]
	bucket         tokens
	throttledFlows list[flow[K]] // the flows that have throttled entries, in the order of their turns
	throttled      int           // entries
	timer          *time.Timer   // fires when time alone makes a key able to run; made when first needed
	armed          int64         // when it fires; never if it does not

	runs    []run[K]
	reruns  int
	waiters list[waiter[K]]
	shut    bool
	drained chan struct{} // closed when the last run of a drained queue is done; nil until somebody waits

	adds, merged, retries uint64
}

// run is a key that is handed out.
type run[K comparable] struct {
	entry  *entry[K]
	since  int64
	causes []Cause
}

// waiter is a Get that waits.
type waiter[K comparable] struct {
	place node[waiter[K]]
	ready chan struct{} // receives once item is set or the queue is shut down
	given bool          // item is set
	item  Item[K]
	wait  int64
}

// New returns an empty queue. It starts no goroutine; ShutDown and Drain stop its timer.
func New[K comparable](config Config[K]) *Queue[K] {
	q := &Queue[K]{
		flowOf:  config.Flow,
		backoff: config.Backoff.withDefaults(),
		waited:  config.Waited,
		worked:  config.Worked,
		start:   time.Now(),
		bucket:  newTokens(config.Retries),
		armed:   never,
	}
	q.wall.set(q.start, 0)
	q.waiters.init()
	q.empty(config.Slack.byClass())
	return q
}

// empty drops everything that waits.
func (q *Queue[K]) empty(slack [Classes]int64) {
	q.entries, q.freeEntries = newTable[K](), nil
	q.leaving = make([]*entry[K], 0, batch)
	q.flows, q.freeFlows = map[string]*flow[K]{}, nil
	q.single = newFlow[K]()
	q.order = order[K]{}
	q.order.init(slack)
	q.agenda = agenda[K]{}
	q.throttledFlows.init()
	q.throttled, q.reruns = 0, 0
}

// Add asks for the key to be handed out as soon as its turn comes. A key that waits already stays where it is, or moves
// forward when the class is more urgent; a key that runs is handed out once more after Done. After ShutDown it does
// nothing.
func (q *Queue[K]) Add(key K, class Class, cause Cause) {
	now := q.clock()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shut {
		return
	}
	q.tick(now)
	e := q.entry(key)
	e.causes = merge(e.causes, &cause, q.wallTime(q.now))
	q.arrive(e, class, q.now)
	q.dispatch()
}

// arrive takes in that the entry has work that can be done from the given time on.
func (q *Queue[K]) arrive(e *entry[K], class Class, at int64) {
	switch {
	case e.state == rerun:
		q.merged++
		e.class = min(e.class, class)
		return
	case e.state != resting:
		q.merged++
		q.order.hasten(e, class, at)
	case e.running():
		q.adds++
		q.reruns++
		e.state, e.class = rerun, class
		return
	default:
		q.adds++
		q.order.place(e, class, at)
	}
	q.settlePlans(e)
}

// settlePlans drops what is planned for an entry that is due: the coming run stands for it.
func (q *Queue[K]) settlePlans(e *entry[K]) {
	if e.state == due {
		q.cancel(e)
	}
}

// Get waits for a key and hands it out. The caller must call Done with the key when it has finished, also when it failed.
// The error is ctx's when ctx has ended, and ErrShutDown when the queue is shut down; keys that still wait then are
// not handed out. A key that was given to a waiting Get at the moment that ends it is returned, without an error.
func (q *Queue[K]) Get(ctx context.Context) (Item[K], error) {
	if err := ctx.Err(); err != nil {
		return Item[K]{}, err
	}
	now := q.clock()
	q.mu.Lock()
	if q.shut {
		q.mu.Unlock()
		return Item[K]{}, ErrShutDown
	}
	q.tick(now)
	if e := q.order.next(); e != nil {
		item, wait := q.handOut(e)
		q.mu.Unlock()
		if q.waited != nil {
			q.waited(item.Class, time.Duration(wait))
		}
		return item, nil
	}
	w := &waiter[K]{ready: make(chan struct{}, 1)}
	w.place.owner = w
	q.waiters.push(&w.place)
	q.mu.Unlock()
	return q.await(ctx, w)
}

// await waits for what dispatch gives to w.
func (q *Queue[K]) await(ctx context.Context, w *waiter[K]) (Item[K], error) {
	select {
	case <-w.ready:
	case <-ctx.Done():
		q.mu.Lock()
		gone := !w.given && !q.shut
		if gone {
			w.place.remove()
		}
		q.mu.Unlock()
		if gone {
			return Item[K]{}, ctx.Err()
		}
	}
	if !w.given {
		return Item[K]{}, ErrShutDown
	}
	if q.waited != nil {
		q.waited(w.item.Class, time.Duration(w.wait))
	}
	return w.item, nil
}

// dispatch gives what can run to the Gets that wait.
func (q *Queue[K]) dispatch() {
	for w := q.waiters.front(); w != nil; w = q.waiters.front() {
		e := q.order.next()
		if e == nil {
			return
		}
		w.place.remove()
		w.item, w.wait = q.handOut(e)
		w.given = true
		w.ready <- struct{}{}
	}
}

// handOut marks an entry that was taken out of the order as running. It also returns how long it waited.
func (q *Queue[K]) handOut(e *entry[K]) (Item[K], int64) {
	q.cancel(e)
	item := Item[K]{
		Key:      e.key,
		Causes:   e.causes,
		Class:    e.class,
		Failures: int(e.failures),
		Added:    q.wallTime(e.added),
	}
	e.run = int32(len(q.runs))
	q.runs = append(q.runs, run[K]{entry: e, since: q.now, causes: e.causes})
	e.causes = nil
	return item, q.now - e.added
}

// Done reports that the work on a key that Get handed out is finished. For a key that is not handed out it does nothing.
func (q *Queue[K]) Done(key K) {
	var now int64
	if q.worked != nil {
		now = q.clock()
	}
	q.mu.Lock()
	e := q.findRunning(key)
	if e == nil {
		q.mu.Unlock()
		return
	}
	since := q.finish(e)
	if e.state == rerun {
		q.tick(q.clock())
		q.reruns--
		q.order.place(e, e.class, q.now)
		q.settlePlans(e)
		q.dispatch()
	} else {
		q.release(e)
	}
	if q.drained != nil && len(q.runs) == 0 {
		close(q.drained)
		q.drained = nil
	}
	q.mu.Unlock()
	if q.worked != nil {
		q.worked(time.Duration(max(now-since, 0)))
	}
}

// fewRuns is the number of runs up to which it is cheaper to look through them than to hash a key.
const fewRuns = 8

// findRunning returns the entry of a key that is handed out, or nil.
func (q *Queue[K]) findRunning(key K) *entry[K] {
	if len(q.runs) <= fewRuns {
		for i := range q.runs {
			if e := q.runs[i].entry; e.key == key {
				return e
			}
		}
		return nil
	}
	if e, _ := q.entries.find(key); e != nil && e.running() {
		return e
	}
	return nil
}

// finish takes the entry off the runs and returns since when it ran.
func (q *Queue[K]) finish(e *entry[K]) int64 {
	i, last := e.run, len(q.runs)-1
	since := q.runs[i].since
	q.runs[i] = q.runs[last]
	q.runs[i].entry.run = i
	q.runs[last] = run[K]{}
	q.runs = q.runs[:last]
	e.run = -1
	return since
}

// Len returns the number of keys that wait for a worker and could run now.
func (q *Queue[K]) Len() int {
	now := q.clock()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tick(now)
	return q.order.len()
}
