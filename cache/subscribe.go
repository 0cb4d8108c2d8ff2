package cache

import (
	"context"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/setpoint-dev/setpoint/filter"
	"github.com/setpoint-dev/setpoint/internal/mvcc"
)

// subscriber is one user of a store's changes. Until it is attached it gets nothing; then it gets the snapshot
// it was attached with, then what changed since.
//
// Changes wait in pending, one per key, in the order in which the keys changed first. There are at most as many
// as objects, gone ones included: there is no other limit, and none is needed.
type subscriber struct {
	form    *form
	deliver func(filter.Change) // nil: wants to know only when the store is synced
	synced  chan struct{}

	mu      sync.Mutex
	pending map[string]*pendingChange
	order   []*pendingChange
	wake    chan struct{} // holds a token while there may be something in order
	closed  chan struct{}
}

// pendingChange is what happened to one key since the subscriber last heard of it.
type pendingChange struct {
	key      string
	old, now *object
	done     bool // delivered or void; still in order
}

func newSubscriber(f *form, deliver func(filter.Change)) *subscriber {
	return &subscriber{
		form:    f,
		deliver: deliver,
		synced:  make(chan struct{}),
		pending: map[string]*pendingChange{},
		wake:    make(chan struct{}, 1),
		closed:  make(chan struct{}),
	}
}

// enqueue merges one change into what waits. The store calls it in the order of its writes.
func (s *subscriber) enqueue(old, now *object) {
	if s.deliver == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed() {
		return
	}
	key := keyOf(old, now)
	if p := s.pending[key]; p != nil {
		p.now = now
		if p.old == nil && p.now == nil { // came and went
			s.drop(p)
		}
		return
	}
	p := &pendingChange{key: key, old: old, now: now}
	s.pending[key] = p
	s.order = append(s.order, p)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// drop takes back a change that waits; mu is held. Its place in order goes when half of the places are void, so
// that order stays bounded by what is pending.
func (s *subscriber) drop(p *pendingChange) {
	p.done = true
	delete(s.pending, p.key)
	if len(s.order) > 2*len(s.pending)+64 {
		s.order = slices.DeleteFunc(s.order, func(p *pendingChange) bool { return p.done })
	}
}

func keyOf(old, now *object) string {
	if now != nil {
		return now.key
	}
	return old.key
}

// take removes and returns the pending change of a key, or nil.
func (s *subscriber) take(key string) *pendingChange {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pending[key]
	if p != nil {
		s.drop(p)
	}
	return p
}

// next removes and returns the first pending change, or nil.
func (s *subscriber) next() *pendingChange {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.order) > 0 {
		p := s.order[0]
		s.order[0] = nil
		s.order = s.order[1:]
		if !p.done {
			p.done = true
			delete(s.pending, p.key)
			return p
		}
	}
	s.order = nil
	return nil
}

func (s *subscriber) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.closed)
	s.pending, s.order = nil, nil
}

func (s *subscriber) isClosed() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

// run delivers until ctx ends or the subscriber is closed.
func (s *subscriber) run(ctx context.Context, initial mvcc.Snapshot[*object]) {
	if s.deliver == nil {
		close(s.synced)
		return
	}
	for e := range initial.All() {
		if ctx.Err() != nil || s.isClosed() {
			return
		}
		now := e.Value
		if p := s.take(e.Key); p != nil {
			now = p.now // it changed since: the newest state will do
		}
		if now != nil {
			s.deliver(filter.Change{Kind: s.form.gvk, New: s.form.state(now), Initial: true})
		}
	}
	initial = mvcc.Snapshot[*object]{} // free what is out of date
	close(s.synced)
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.closed:
			return
		case <-s.wake:
		}
		for p := s.next(); p != nil; p = s.next() {
			if ctx.Err() != nil || s.isClosed() {
				return
			}
			s.deliverChange(p)
		}
	}
}

// deliverChange shows two objects of one name that followed each other as what they are: one that went, one
// that came.
func (s *subscriber) deliverChange(p *pendingChange) {
	if p.old != nil && p.now != nil && p.old.uid != p.now.uid {
		s.deliver(filter.Change{Kind: s.form.gvk, Old: s.form.state(p.old)})
		s.deliver(filter.Change{Kind: s.form.gvk, New: s.form.state(p.now)})
		return
	}
	s.deliver(filter.Change{Kind: s.form.gvk, Old: s.form.state(p.old), New: s.form.state(p.now)})
}

// state makes the lazily decoded view of an object that filters get.
func (f *form) state(o *object) *filter.State {
	if o == nil {
		return nil
	}
	return filter.NewState(
		func() *metav1.ObjectMeta {
			meta, err := f.meta(o)
			if err != nil { // what was read once to be stored; the key is what matters most
				name := o.name()
				return &metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}
			}
			return meta
		},
		func() (runtime.Object, error) { return f.native(o) },
	)
}
