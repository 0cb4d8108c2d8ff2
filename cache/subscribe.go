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
// as objects, gone ones included, and the ends of expected objects, which have a limit: no other is needed.
type subscriber struct {
	form    *form
	deliver func(filter.Change) // nil: wants to know only when the store is synced
	synced  chan struct{}

	mu      sync.Mutex
	pending map[string]*pendingChange
	order   []*pendingChange
	ends    int           // how many of pending have one
	wake    chan struct{} // holds a token while there may be something in order
	closed  chan struct{}
}

// pendingChange is what happened to one key since the subscriber last heard of it.
type pendingChange struct {
	key      string
	old, now *object
	end      *filter.State // of an expected object that came after old and went before now
	done     bool          // delivered or void; still in order
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
	p := s.pending[key]
	if p == nil {
		p = s.add(key)
		p.old, p.now = old, now
		return
	}
	if went := p.now; went != nil && went.expected && (now == nil || now.uid != went.uid) && (p.old == nil || p.old.uid != went.uid) {
		s.setEnd(p, s.form.state(went))
	}
	p.now = now
	if p.old == nil && p.now == nil && p.end == nil { // came and went
		s.drop(p)
	}
}

// enqueueEnd merges the end of an object that was not seen to come.
func (s *subscriber) enqueueEnd(key string, end *filter.State) {
	if s.deliver == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed() || s.ends >= maxExpected {
		return
	}
	p := s.pending[key]
	if p == nil {
		p = s.add(key)
	}
	s.setEnd(p, end)
}

// setEnd keeps the last end of a key, as long as there are not too many; mu is held.
func (s *subscriber) setEnd(p *pendingChange, end *filter.State) {
	switch {
	case p.end != nil:
	case s.ends >= maxExpected:
		return
	default:
		s.ends++
	}
	p.end = end
}

// add makes a place for a key in the order; mu is held.
func (s *subscriber) add(key string) *pendingChange {
	p := &pendingChange{key: key}
	s.pending[key] = p
	s.order = append(s.order, p)
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return p
}

// drop takes back a change that waits; mu is held. Its place in order goes when half of the places are void, so
// that order stays bounded by what is pending.
func (s *subscriber) drop(p *pendingChange) {
	s.finish(p)
	if len(s.order) > 2*len(s.pending)+64 {
		s.order = slices.DeleteFunc(s.order, func(p *pendingChange) bool { return p.done })
	}
}

// finish takes a change out of what waits; mu is held.
func (s *subscriber) finish(p *pendingChange) {
	p.done = true
	delete(s.pending, p.key)
	if p.end != nil {
		s.ends--
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
			s.finish(p)
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
			s.deliverEnd(p)
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

func (s *subscriber) deliverEnd(p *pendingChange) {
	if p.end != nil {
		s.deliver(filter.Change{Kind: s.form.gvk, Old: p.end})
	}
}

// deliverChange shows two objects of one name that followed each other as what they are: one that went, one
// that came.
func (s *subscriber) deliverChange(p *pendingChange) {
	s.deliverEnd(p)
	if p.old == nil && p.now == nil {
		return
	}
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
		func() *metav1.ObjectMeta { return f.metaOrKey(o) },
		func() (runtime.Object, error) { return f.native(o) },
	)
}

// metaOrKey decodes the metadata. Where that fails, although they were read once to be stored, the key is what
// matters most.
func (f *form) metaOrKey(o *object) *metav1.ObjectMeta {
	meta, err := f.meta(o)
	if err != nil {
		name := o.name()
		return &metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}
	}
	return meta
}
