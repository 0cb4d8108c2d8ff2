package event

import (
	"container/list"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// The bounds of what a sink remembers and sends.
const (
	maxSeries    = 4096             // series remembered
	seriesLife   = 6 * time.Minute  // after which a repetition starts a new series
	seriesPeriod = 10 * time.Second // between two updates of a series
	objectBurst  = 25               // new events of one object at once
	objectPeriod = 30 * time.Second // for one more
	maxObjects   = 4096             // objects whose burst is remembered
)

// series is one Event and how often it happened.
type series struct {
	key         key
	name        string // of the Event; "" until it was created
	count       int
	first, last time.Time
	sent        time.Time // when the server was last told
	told        int       // the count it was told
	queued      bool
}

// due returns when the server should be told of the present count.
func (s *series) due() time.Time {
	if s.told == 0 {
		return s.first
	}
	return s.sent.Add(seriesPeriod)
}

// recent holds the series that may still go on, the least recently used first.
type recent struct {
	byKey map[key]*list.Element
	order *list.List // of *series
}

func newRecent() recent {
	return recent{byKey: map[key]*list.Element{}, order: list.New()}
}

// next returns the series that an occurrence of k at now belongs to, counted in,
// or nil when it has none.
func (r *recent) next(k key, now time.Time) *series {
	e, ok := r.byKey[k]
	if !ok {
		return nil
	}
	s := e.Value.(*series)
	if now.Sub(s.last) > seriesLife {
		r.drop(e)
		return nil
	}
	s.count++
	s.last = now
	r.order.MoveToBack(e)
	return s
}

// begin starts a series with an occurrence of k at now.
func (r *recent) begin(k key, now time.Time) *series {
	for front := r.order.Front(); front != nil; front = r.order.Front() {
		if s := front.Value.(*series); r.order.Len() < maxSeries && now.Sub(s.last) <= seriesLife {
			break
		}
		r.drop(front)
	}
	s := &series{key: k, count: 1, first: now, last: now}
	r.byKey[k] = r.order.PushBack(s)
	return s
}

func (r *recent) drop(e *list.Element) {
	r.order.Remove(e)
	delete(r.byKey, e.Value.(*series).key)
}

// budget says how many new events each object may still have.
type budget struct {
	byObject map[object]*list.Element
	order    *list.List // of *allowance, the least recently used first
}

type object struct {
	namespace, kind, name string
	uid                   types.UID
}

type allowance struct {
	object object
	left   int
	since  time.Time // from when the refill counts
}

func newBudget() budget {
	return budget{byObject: map[object]*list.Element{}, order: list.New()}
}

// spend takes one event of the object's allowance and reports whether there was
// one.
func (b *budget) spend(k key, now time.Time) bool {
	o := object{k.regarding.Namespace, k.regarding.Kind, k.regarding.Name, k.regarding.UID}
	e, ok := b.byObject[o]
	if !ok {
		if b.order.Len() >= maxObjects {
			front := b.order.Front()
			b.order.Remove(front)
			delete(b.byObject, front.Value.(*allowance).object)
		}
		e = b.order.PushBack(&allowance{object: o, left: objectBurst, since: now})
		b.byObject[o] = e
	}
	b.order.MoveToBack(e)
	a := e.Value.(*allowance)
	if refill := int(now.Sub(a.since) / objectPeriod); refill > 0 {
		a.left = min(a.left+refill, objectBurst)
		a.since = a.since.Add(time.Duration(refill) * objectPeriod)
	}
	if a.left == 0 {
		return false
	}
	a.left--
	return true
}
