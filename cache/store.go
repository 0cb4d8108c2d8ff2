package cache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/setpoint-dev/setpoint/internal/mvcc"
)

// store holds the objects of one kind: what the scopes of its watch have seen, merged.
//
// The table is the truth, ordered by key and readable without a lock. Slots give every object a small number
// that it keeps for life, so that indexes hold four bytes per object and value, and an update that changes no
// label touches no index.
type store struct {
	cache   *Cache
	form    *form
	options Options
	indexes []fieldIndex // in the order of object.values
	stats   *stats
	logger  *slog.Logger

	selected *Watch // of the namespaces, when they are selected by label

	synced  chan struct{} // closed when all scopes have stored their first listing
	stopped chan struct{} // closed when the watch has been asked to stop

	// mu guards the fields below. Writers of the table hold it too, so that table, indexes, revisions and
	// subscribers agree whenever it is free.
	mu          sync.RWMutex
	ctx         context.Context             // of the watch; nil before start
	began       time.Time                   // when the watch was started
	run         func(func(context.Context)) // starts a goroutine of the watch; nil before start
	table       *mvcc.Table[*object]
	slots       []*object
	free        []uint32
	labels      labelIndex
	fields      []valueIndex // by the number of the field index
	bytes       int64
	namespaces  namespaces
	expected    map[string]*expectation  // by key: none of them is in the table
	mapping     *meta.RESTMapping        // of the kind, once it is known
	scopes      []*scope                 // sorted by namespace; none until the resource and the namespaces are known
	resolveErr  error                    // why it is not known yet
	subscribers map[*subscriber]struct{} // attached ones get every change once the store is synced
	progress    chan struct{}            // closed when a revision moves or an object goes; nil while nobody waits
}

// fieldIndex is a declared field index.
type fieldIndex struct {
	name   string
	values func(runtime.Object) []string
}

func newStore(c *Cache, f *form, k *kind) *store {
	o := c.options(f.gvk)
	s := &store{
		cache:       c,
		form:        f,
		options:     o,
		namespaces:  c.namespacesOf(k, o),
		indexes:     k.indexes,
		stats:       c.metrics.of(f.gvk),
		logger:      c.logger.With("kind", f.gvk.GroupKind().String()),
		synced:      make(chan struct{}),
		stopped:     make(chan struct{}),
		table:       mvcc.New[*object](mvcc.Options{}),
		labels:      labelIndex{},
		fields:      make([]valueIndex, len(k.indexes)),
		subscribers: map[*subscriber]struct{}{},
		expected:    map[string]*expectation{},
	}
	for i := range s.fields {
		s.fields[i] = valueIndex{}
	}
	return s
}

// write is one change to be made: now is nil for a deletion.
type write struct {
	key string
	now *object
}

// apply makes the changes that a scope has seen up to the revision, in one step. Only the scope's own goroutine
// calls it, and the keys of two scopes never meet, so what the caller has read of its keys still holds.
func (s *store) apply(sc *scope, writes []write, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !sc.left {
		s.commit(sc, writes, version)
	}
}

// commit is apply; mu is held and the scope followed.
func (s *store) commit(sc *scope, writes []write, version string) {
	gone := false
	_, _ = s.table.Update(func(tx *mvcc.Txn[*object]) error {
		for _, w := range writes {
			if w.now == nil {
				old, deleted := tx.Delete(w.key)
				if deleted {
					s.unindex(old)
					s.notify(old, nil)
					gone = true
				}
				continue
			}
			old, _, found := tx.Get(w.key)
			if found {
				w.now.key = old.key
			}
			s.met(old, w.now)
			s.index(old, w.now)
			tx.Set(w.now.key, w.now)
			s.notify(old, w.now)
			gone = gone || old != nil && old.uid != w.now.uid
		}
		return nil
	})
	if sc.advance(version) || gone {
		s.wake()
	}
}

// bookmark moves a scope's revision without a change.
func (s *store) bookmark(sc *scope, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !sc.left && sc.advance(version) {
		s.forget(sc, func(_ string, e *expectation) bool { return e.passedBy(version) })
		s.wake()
	}
}

// rewind forgets a scope's revision, so that an older one can follow.
func (s *store) rewind(sc *scope) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sc.version = ""
	for key, e := range s.expected {
		if sc.contains(key) {
			e.version = ""
		}
	}
}

// notify tells the subscribers; mu is held. Before the store is synced there is nothing to tell: they begin
// with a snapshot.
func (s *store) notify(old, now *object) {
	if !s.isSynced() {
		return
	}
	for sub := range s.subscribers {
		sub.enqueue(old, now)
	}
}

// wake releases those who wait for progress; mu is held.
func (s *store) wake() {
	if s.progress != nil {
		close(s.progress)
		s.progress = nil
	}
}

// index gives the new state of an object its slot and moves it in the indexes; mu is held.
func (s *store) index(old, now *object) {
	s.bytes += now.cost()
	if old == nil {
		if n := len(s.free); n > 0 {
			now.slot = s.free[n-1]
			s.free = s.free[:n-1]
		} else {
			now.slot = uint32(len(s.slots))
			s.slots = append(s.slots, nil)
		}
		s.slots[now.slot] = now
		now.eachLabel(func(k, v string) bool { s.labels.add(k, v, now.slot); return true })
		s.indexFields(nil, now)
		return
	}
	s.bytes -= old.cost()
	now.slot = old.slot
	s.slots[now.slot] = now
	if !sameLabels(old, now) {
		old.eachLabel(func(k, v string) bool { s.labels.remove(k, v, now.slot); return true })
		now.eachLabel(func(k, v string) bool { s.labels.add(k, v, now.slot); return true })
	}
	s.indexFields(old, now)
}

func (s *store) unindex(old *object) {
	s.bytes -= old.cost()
	old.eachLabel(func(k, v string) bool { s.labels.remove(k, v, old.slot); return true })
	s.indexFields(old, nil)
	s.slots[old.slot] = nil
	s.free = append(s.free, old.slot)
}

func (s *store) indexFields(old, now *object) {
	for i, index := range s.fields {
		before, after := old.fieldValues(i), now.fieldValues(i)
		if slices.Equal(before, after) {
			continue
		}
		for _, v := range before {
			index.remove(v, old.slot)
		}
		for _, v := range after {
			index.add(v, now.slot)
		}
	}
}

// fieldValues returns the object's values in the i-th field index.
func (o *object) fieldValues(i int) []string {
	if o == nil || o.values == nil {
		return nil
	}
	return (*o.values)[i]
}

// sameLabels compares by order, too: servers write labels sorted, and a false answer costs only time.
func sameLabels(a, b *object) bool {
	var flat []string
	a.eachLabel(func(k, v string) bool { flat = append(flat, k, v); return true })
	same := true
	b.eachLabel(func(k, v string) bool {
		same = len(flat) >= 2 && flat[0] == k && flat[1] == v
		if same {
			flat = flat[2:]
		}
		return same
	})
	return same && len(flat) == 0
}

// admit makes an object ready for the store: it takes the bytes in and computes the values of the field
// indexes. It needs no lock. What a transform or an index function cannot be given is kept as it is, and
// logged.
func (s *store) admit(enc encoding, data string) (*object, error) {
	o, err := newObject(enc, s.form.compact(enc, data), s.form.keep)
	if err != nil {
		return nil, fmt.Errorf("read a %s: %w", s.form.gvk.Kind, err)
	}
	if s.options.Transform != nil {
		if changed, err := s.form.transform(o, s.options.Transform); err != nil {
			s.logger.Error("object kept without its transform", "kind", s.form.gvk.Kind, "object", o.key, "error", err)
		} else {
			o = changed
		}
	}
	if len(s.indexes) > 0 {
		s.evaluate(o)
	}
	return s.form.packer.pack(o)
}

// evaluate computes the values of the field indexes.
func (s *store) evaluate(o *object) {
	decoded, err := s.form.native(o)
	if err != nil {
		s.logger.Error("object kept without its index values", "kind", s.form.gvk.Kind, "object", o.key, "error", err)
		return
	}
	values := make([][]string, len(s.indexes))
	for i, index := range s.indexes {
		values[i] = slices.Compact(slices.Sorted(slices.Values(index.values(decoded))))
	}
	o.values = &values
}

// replace makes a complete listing of a scope the truth: what it lacks is gone.
func (s *store) replace(sc *scope, listed map[string]*object, version string) {
	snapshot := s.table.Snapshot()
	var writes []write
	for e := range snapshot.Range(namespaceRange(sc.namespace)) {
		now := listed[e.Key]
		switch {
		case now == nil:
			writes = append(writes, write{key: e.Key})
		case now.uid == e.Value.uid && now.version == e.Value.version:
			delete(listed, e.Key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(listed)) {
		writes = append(writes, write{key: key, now: listed[key]})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !sc.left {
		s.miss(sc, listed, version)
		s.commit(sc, writes, version)
	}
}

// get returns the object under the key, or nil.
func (s *store) get(key string) *object {
	o, _, _ := s.table.Snapshot().Get(key)
	return o
}

// setErr records what a scope last failed with, or nil.
func (s *store) setErr(sc *scope, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sc.err = err
}

// err is what keeps the watch from being healthy, or nil.
func (s *store) err() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.resolveErr != nil {
		return s.resolveErr
	}
	var all []error
	if s.selected != nil && s.namespaces.unknown {
		if err := s.selected.Err(); err != nil {
			all = append(all, fmt.Errorf("select namespaces by label: %w", err))
		}
	}
	for _, sc := range s.scopes {
		if sc.err != nil {
			all = append(all, sc.err)
		}
	}
	return errors.Join(all...)
}

// newer reports whether revision a is surely after b. Revisions that are no numbers cannot be compared.
func newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}

func (s *store) size() (objects int, bytes int64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.table.Snapshot().Len(), s.bytes
}
