package queue

import "math"

// never is the time of what is not planned.
const never = math.MaxInt64

// maxFree is the number of unused entries, and of unused flows, that a queue keeps for later.
const maxFree = 1024

// batch is how many entries are dropped at a time.
const batch = 64

// state is where an entry stands in the order of work. What it has planned for later is in its delay, and
// whether it is running in its run index.
type state uint8

const (
	resting state = iota // has no work that could be done now
	rerun                // is running, and became able to run once more
	early                // could run, and its slack is not used up
	due                  // could run, and its slack is used up
)

// An entry is all that the queue knows of one key. It exists while the key waits, runs, has something planned or
// has failures to remember. All times are nanoseconds since the queue was made.
type entry[K comparable] struct {
	key      K
	hash, id uint32 // in Queue.entries
	flow     *flow[K]
	causes   []Cause   // of the work that waits; nil while there is none
	delay    *delay[K] // what is planned for later; nil if nothing is
	added    int64     // when it became able to run
	deadline int64     // added + slack: when it becomes due
	byFlow   node[entry[K]]
	byClass  node[entry[K]]
	failures int32
	run      int32 // index in Queue.runs, or -1
	class    Class
	state    state
	leaving  bool // is in Queue.leaving
}

func (e *entry[K]) running() bool { return e.run >= 0 }

// A flow is the keys that share one fair portion of the queue.
type flow[K comparable] struct {
	name      string
	entries   int // that refer to it; it is dropped with the last
	due       list[entry[K]]
	early     [Classes]list[entry[K]]
	earlies   int // in all of early
	throttled list[entry[K]]

	inDue, inEarly, inThrottled node[flow[K]] // its places in the rings
}

func newFlow[K comparable]() *flow[K] {
	f := &flow[K]{}
	f.due.init()
	for class := range f.early {
		f.early[class].init()
	}
	f.throttled.init()
	f.inDue.owner, f.inEarly.owner, f.inThrottled.owner = f, f, f
	return f
}

// entry returns the entry of the key, which it makes when there is none.
func (q *Queue[K]) entry(key K) *entry[K] {
	e, hash := q.entries.find(key)
	if e != nil {
		return e
	}
	if n := len(q.freeEntries); n > 0 {
		e, q.freeEntries = q.freeEntries[n-1], q.freeEntries[:n-1]
	} else {
		e = &entry[K]{run: -1}
		e.byFlow.owner, e.byClass.owner = e, e
	}
	e.key, e.flow = key, q.flow(key)
	e.flow.entries++
	q.entries.insert(e, hash)
	return e
}

func (q *Queue[K]) flow(key K) *flow[K] {
	if q.flowOf == nil {
		return q.single
	}
	name := q.flowOf(key)
	if f, ok := q.flows[name]; ok {
		return f
	}
	var f *flow[K]
	if n := len(q.freeFlows); n > 0 {
		f, q.freeFlows = q.freeFlows[n-1], q.freeFlows[:n-1]
	} else {
		f = newFlow[K]()
	}
	f.name = name
	q.flows[name] = f
	return f
}

// idle reports whether there is nothing more to know of the entry.
func (e *entry[K]) idle() bool {
	return !e.running() && e.state == resting && e.delay == nil && e.failures == 0
}

// release drops the entry when it is idle, soon: entries leave in batches.
func (q *Queue[K]) release(e *entry[K]) {
	if e.leaving || !e.idle() {
		return
	}
	e.leaving = true
	q.leaving = append(q.leaving, e)
	if len(q.leaving) == cap(q.leaving) {
		q.sweep()
	}
}

// sweep drops the entries that were released and are idle still.
func (q *Queue[K]) sweep() {
	q.entries.touch(q.leaving)
	for i, e := range q.leaving {
		q.leaving[i] = nil
		e.leaving = false
		if e.idle() {
			q.drop(e)
		}
	}
	q.leaving = q.leaving[:0]
}

func (q *Queue[K]) drop(e *entry[K]) {
	q.entries.remove(e)
	f := e.flow
	if len(q.freeEntries) < maxFree {
		// It rests and has no causes and no delay: that is all that a new entry must not have.
		var none K
		e.key, e.flow = none, nil
		q.freeEntries = append(q.freeEntries, e)
	}
	f.entries--
	if f.entries > 0 || f == q.single {
		return
	}
	delete(q.flows, f.name)
	if len(q.freeFlows) < maxFree {
		q.freeFlows = append(q.freeFlows, f)
	}
}
