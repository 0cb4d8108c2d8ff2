package mvcc

import (
	"iter"
	"slices"
	"sort"
)

// Change is one write of one key.
type Change[V any] struct {
	Key      string
	Revision uint64
	// New is the value written; the zero value when Deleted.
	New     V
	Deleted bool
	// Old is the value before and OldRevision the revision that wrote it; OldRevision 0: the key did not exist.
	Old         V
	OldRevision uint64
}

const chunkLen = 64

// chunk is a stretch of the log of changes. Only the writer fills it, and only behind the part any published history covers,
// so that readers need no lock.
type chunk[V any] struct {
	changes [chunkLen]Change[V]
	weight  int // of the old values; for the writer only
}

// history is an immutable view of the log of changes: all of chunks but the last are full, the last is used up to tail.
type history[V any] struct {
	chunks    []*chunk[V]
	tail      int
	weight    int    // of all chunks
	compacted uint64 // changes up to this revision are gone or as good as gone
}

func (h history[V]) len() int {
	if len(h.chunks) == 0 {
		return 0
	}
	return (len(h.chunks)-1)*chunkLen + h.tail
}

func (h history[V]) at(i int) *Change[V] { return &h.chunks[i/chunkLen].changes[i%chunkLen] }

// find returns the position of the first change after revision.
func (h history[V]) find(revision uint64) int {
	return sort.Search(h.len(), func(i int) bool { return h.at(i).Revision > revision })
}

func (h history[V]) after(revision uint64) iter.Seq[Change[V]] {
	return func(yield func(Change[V]) bool) {
		for i := h.find(revision); i < h.len(); i++ {
			if !yield(*h.at(i)) {
				return
			}
		}
	}
}

// until returns the history as it was at revision.
func (h history[V]) until(revision uint64) history[V] {
	n := h.find(revision)
	if n == 0 {
		return history[V]{compacted: h.compacted}
	}
	full := (n - 1) / chunkLen
	return history[V]{chunks: slices.Clone(h.chunks[:full+1]), tail: n - full*chunkLen, compacted: h.compacted}
}

func (h history[V]) append(changes []Change[V]) history[V] {
	for len(changes) > 0 {
		if len(h.chunks) == 0 || h.tail == chunkLen {
			// Copied, not grown in place, so that an older history that shares the slice does not keep later chunks alive.
			h.chunks = append(slices.Clone(h.chunks), new(chunk[V]))
			h.tail = 0
		}
		last := h.chunks[len(h.chunks)-1]
		n := copy(last.changes[h.tail:], changes)
		h.tail += n
		for _, c := range changes[:n] {
			if w, ok := any(c.Old).(Weigher); ok && c.OldRevision != 0 {
				last.weight += w.Weight()
				h.weight += w.Weight()
			}
		}
		changes = changes[n:]
	}
	return h
}

// trim drops the oldest chunks as long as limit changes remain, and while they weigh more than maxWeight (0: no matter).
// With limit 0 nothing before revision is kept.
func (h history[V]) trim(limit, maxWeight int, revision uint64) history[V] {
	if limit == 0 {
		return history[V]{compacted: revision}
	}
	drop := max(0, h.len()-limit) / chunkLen
	for weight := h.weight - weightOf(h.chunks[:drop]); maxWeight > 0 && weight > maxWeight && drop < len(h.chunks)-1; drop++ {
		weight -= h.chunks[drop].weight
	}
	if drop == 0 {
		return h
	}
	compacted := max(h.compacted, h.at(drop*chunkLen-1).Revision)
	h = h.drop(drop)
	h.compacted = compacted
	return h
}

// compact makes the changes up to revision unreachable and drops the chunks that hold nothing else.
func (h history[V]) compact(revision uint64) history[V] {
	h = h.drop(h.find(revision) / chunkLen)
	h.compacted = revision
	return h
}

// drop forgets the first n chunks.
func (h history[V]) drop(n int) history[V] {
	h.weight -= weightOf(h.chunks[:n])
	h.chunks = slices.Clone(h.chunks[n:])
	if len(h.chunks) == 0 {
		h.tail = 0
	}
	return h
}

func weightOf[V any](chunks []*chunk[V]) int {
	w := 0
	for _, c := range chunks {
		w += c.weight
	}
	return w
}

// undo returns the state as it was at revision.
func (s *state[V]) undo(revision uint64) *state[V] {
	// No node carries this number, so the tree copies each node that it touches exactly once.
	t := tree[V]{txn: privateTxn, root: s.root}
	for i, first := s.history.len()-1, s.history.find(revision); i >= first; i-- {
		c := s.history.at(i)
		if c.OldRevision == 0 {
			t.delete(c.Key)
		} else {
			t.set(Entry[V]{Key: c.Key, Revision: c.OldRevision, Value: c.Old})
		}
	}
	return &state[V]{root: t.root, revision: revision, history: s.history.until(revision)}
}
