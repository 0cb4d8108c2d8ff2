package mvcc

import (
	"errors"
	"sync"
	"sync/atomic"
)

// ErrCompacted says that the revision asked for is older than the history still kept: start again from a Snapshot.
var ErrCompacted = errors.New("revision is compacted")

// ErrFuture says that the revision asked for has not been committed yet.
var ErrFuture = errors.New("revision is in the future")

// Options configures New. The zero value is a table without history whose first commit is revision 1.
type Options struct {
	// History is the number of changes kept for Changes and At. The oldest are dropped, a chunk (64) at a time, as soon as
	// at least History newer ones are kept. Zero keeps none: only the present can be read.
	History int
	// HistoryWeight is the most that the old values of these changes may weigh, if they are Weighers; to keep to it, fewer
	// than History changes are kept, down to one chunk. Zero is no limit.
	HistoryWeight int
	// Revision is the revision of the empty table; the first commit is Revision+1.
	Revision uint64
}

// Weigher is a value that counts against Options.HistoryWeight. Its weight never changes.
type Weigher interface{ Weight() int }

// Table is an ordered map from string keys to values with many versions: see the package comment for its laws.
// All methods may be called from any goroutine.
type Table[V any] struct {
	options Options
	txns    atomic.Uint64 // number of the last transaction, see node.txn
	current atomic.Pointer[state[V]]

	writing sync.Mutex // held by the one running Update or Compact

	wakeMu sync.Mutex
	wake   chan struct{} // closed by the next commit; nil while nobody waits
}

// state is everything a Snapshot sees. It is immutable once published; its nodes and chunks are shared with later states.
type state[V any] struct {
	root     *node[V] // nil when empty
	revision uint64
	history  history[V]
}

// New makes an empty table.
func New[V any](o Options) *Table[V] {
	o.History = max(o.History, 0)
	t := &Table[V]{options: o}
	t.current.Store(&state[V]{revision: o.Revision, history: history[V]{compacted: o.Revision}})
	return t
}

// Snapshot returns the present content. It costs one atomic load.
func (t *Table[V]) Snapshot() Snapshot[V] { return Snapshot[V]{t.current.Load()} }

// Revision returns the revision of the last commit.
func (t *Table[V]) Revision() uint64 { return t.current.Load().revision }

// Update runs fn in the only write transaction at that time and commits what it changed as one new revision, which it
// returns. When fn changed nothing, the current revision is returned and none is used up. When fn returns an error or
// panics, nothing is changed; the error is returned as it is. fn must not call Update or Compact of the same table, nor keep
// the transaction. Everything fn reads from the transaction still holds when the changes are committed, so comparing in fn
// is a compare-and-set.
func (t *Table[V]) Update(fn func(*Txn[V]) error) (uint64, error) {
	t.writing.Lock()
	defer t.writing.Unlock()
	old := t.current.Load()
	tx := &Txn[V]{
		tree:     tree[V]{txn: t.txns.Add(1), root: old.root},
		revision: old.revision + 1,
		record:   t.options.History > 0,
	}
	if err := fn(tx); err != nil {
		return old.revision, err
	}
	if !tx.dirty {
		return old.revision, nil
	}
	h := old.history.append(tx.changes)
	h = h.trim(t.options.History, t.options.HistoryWeight, tx.revision)
	t.publish(&state[V]{root: tx.tree.root, revision: tx.revision, history: h})
	return tx.revision, nil
}

// Compact forgets the changes up to and including revision; At(revision) and Changes(revision) remain possible. An already
// compacted revision is no error, a revision not yet committed is ErrFuture.
func (t *Table[V]) Compact(revision uint64) error {
	t.writing.Lock()
	defer t.writing.Unlock()
	old := t.current.Load()
	if revision > old.revision {
		return ErrFuture
	}
	if revision > old.history.compacted {
		t.current.Store(&state[V]{root: old.root, revision: old.revision, history: old.history.compact(revision)})
	}
	return nil
}

// Changed returns a channel that is closed as soon as the table's revision is greater than revision (at once when it is).
func (t *Table[V]) Changed(revision uint64) <-chan struct{} {
	t.wakeMu.Lock()
	defer t.wakeMu.Unlock()
	if t.wake == nil {
		t.wake = make(chan struct{})
	}
	// The order matters: publish stores first and takes wakeMu afterwards, so either we see its state here or it sees our
	// channel there.
	if t.Revision() > revision {
		done := make(chan struct{})
		close(done)
		return done
	}
	return t.wake
}

func (t *Table[V]) publish(s *state[V]) {
	t.current.Store(s)
	t.wakeMu.Lock()
	defer t.wakeMu.Unlock()
	if t.wake != nil {
		close(t.wake)
		t.wake = nil
	}
}

// Txn is a write transaction: it sees the table as it was, with its own changes. It is for one goroutine and ends with the
// function that Update runs.
type Txn[V any] struct {
	tree     tree[V]
	revision uint64
	dirty    bool
	record   bool
	changes  []Change[V]
}

// Revision returns the revision that this transaction's changes will have.
func (tx *Txn[V]) Revision() uint64 { return tx.revision }

// Len returns the number of entries.
func (tx *Txn[V]) Len() int { return tx.tree.root.len() }

// Get returns the value of key and the revision that wrote it; a missing key has revision 0.
func (tx *Txn[V]) Get(key string) (value V, revision uint64, ok bool) {
	return tx.tree.root.get(key)
}

// Set writes key and returns the value it replaced.
func (tx *Txn[V]) Set(key string, value V) (old V, replaced bool) {
	e := Entry[V]{Key: key, Revision: tx.revision, Value: value}
	was, replaced := tx.tree.set(e)
	tx.dirty = true
	if tx.record {
		tx.changes = append(tx.changes, Change[V]{
			Key: key, Revision: tx.revision, New: value, Old: was.Value, OldRevision: was.Revision,
		})
	}
	return was.Value, replaced
}

// Delete removes key and returns the value it had. Deleting a missing key changes nothing.
func (tx *Txn[V]) Delete(key string) (old V, deleted bool) {
	was, deleted := tx.tree.delete(key)
	if !deleted {
		return old, false
	}
	tx.dirty = true
	if tx.record {
		tx.changes = append(tx.changes, Change[V]{
			Key: was.Key, Revision: tx.revision, Deleted: true, Old: was.Value, OldRevision: was.Revision,
		})
	}
	return was.Value, true
}
