package mvcc

import (
	"fmt"
	"iter"
)

// Entry is a key with its value and the revision that wrote it.
type Entry[V any] struct {
	Key      string
	Revision uint64
	Value    V
}

// Snapshot is the immutable content of a table at one revision. It may be copied, used from many goroutines, and kept; what
// it keeps alive is said in the package comment. The zero Snapshot is not usable.
type Snapshot[V any] struct{ s *state[V] }

// Revision returns the revision of the last commit that this snapshot contains.
func (s Snapshot[V]) Revision() uint64 { return s.s.revision }

// Compacted returns the oldest revision that Changes and At accept.
func (s Snapshot[V]) Compacted() uint64 { return s.s.history.compacted }

// Len returns the number of entries.
func (s Snapshot[V]) Len() int { return s.s.root.len() }

// Get returns the value of key and the revision that wrote it; a missing key has revision 0.
func (s Snapshot[V]) Get(key string) (value V, revision uint64, ok bool) { return s.s.root.get(key) }

// All yields every entry in ascending order of keys (byte-wise).
func (s Snapshot[V]) All() iter.Seq[Entry[V]] { return s.Range("", "") }

// Prefix yields the entries whose key starts with prefix, in ascending order.
func (s Snapshot[V]) Prefix(prefix string) iter.Seq[Entry[V]] {
	return s.Range(prefix, PrefixEnd(prefix))
}

// Range yields the entries with from ≤ key < to, in ascending order; an empty to is no upper bound.
func (s Snapshot[V]) Range(from, to string) iter.Seq[Entry[V]] {
	return func(yield func(Entry[V]) bool) { s.s.root.ascend(from, to, yield) }
}

// Count returns the number of entries with from ≤ key < to, in O(log n); an empty to is no upper bound.
func (s Snapshot[V]) Count(from, to string) int {
	end := s.Len()
	if to != "" {
		end = s.s.root.rank(to)
	}
	return max(0, end-s.s.root.rank(from))
}

// Changes yields the changes after revision since up to this snapshot's revision, oldest first. It fails with ErrCompacted
// when some of them are no longer kept and with ErrFuture when since is newer than the snapshot.
func (s Snapshot[V]) Changes(since uint64) (iter.Seq[Change[V]], error) {
	if err := s.readable(since); err != nil {
		return nil, err
	}
	return s.s.history.after(since), nil
}

// At returns the content at an older revision, by undoing the changes made since: it costs O(changes since · log n). It
// fails like Changes.
func (s Snapshot[V]) At(revision uint64) (Snapshot[V], error) {
	if err := s.readable(revision); err != nil {
		return Snapshot[V]{}, err
	}
	if revision == s.s.revision {
		return s, nil
	}
	return Snapshot[V]{s.s.undo(revision)}, nil
}

func (s Snapshot[V]) readable(revision uint64) error {
	switch {
	case revision > s.s.revision:
		return fmt.Errorf("revision %d asked for, the newest is %d: %w", revision, s.s.revision, ErrFuture)
	case revision < s.s.history.compacted:
		return fmt.Errorf("revision %d asked for, the oldest kept is %d: %w", revision, s.s.history.compacted, ErrCompacted)
	}
	return nil
}

// PrefixEnd returns the smallest string greater than every string that starts with prefix, for use as the end of a Range.
// It is empty (no bound) when there is none.
func PrefixEnd(prefix string) string {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] < 0xff {
			return prefix[:i] + string([]byte{prefix[i] + 1})
		}
	}
	return ""
}
