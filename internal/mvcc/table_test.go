package mvcc

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// model is what a Table should do, kept as a full copy of every revision.
type model struct {
	versions []map[string]Entry[int] // index: revision
	changes  []Change[int]
}

func (m *model) begin() map[string]Entry[int] { return maps.Clone(m.versions[len(m.versions)-1]) }

func contents(s Snapshot[int]) map[string]Entry[int] {
	got := map[string]Entry[int]{}
	for e := range s.All() {
		got[e.Key] = e
	}
	return got
}

// TestModel runs random transactions and compares every reading method with the model, at the newest and at old revisions.
func TestModel(t *testing.T) {
	for _, keys := range []int{5, 300, 20_000} {
		t.Run(fmt.Sprintf("keys=%d", keys), func(t *testing.T) {
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			runModel(t, rand.New(rand.NewPCG(seed, 0)), keys, 400)
		})
	}
}

func FuzzModel(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed, uint16(50<<seed))
	}
	f.Fuzz(func(t *testing.T, seed uint64, keys uint16) {
		runModel(t, rand.New(rand.NewPCG(seed, 0)), int(keys)+1, 60)
	})
}

func runModel(t *testing.T, rnd *rand.Rand, keys, rounds int) {
	const limit = 1000
	table := New[int](Options{History: limit})
	m := &model{versions: []map[string]Entry[int]{{}}}
	for range rounds {
		commit(t, rnd, table, m, keys)
		if err := table.check(); err != nil {
			t.Fatal(err)
		}
		if rnd.IntN(20) == 0 {
			at := table.Snapshot().Compacted() + rnd.Uint64N(table.Revision()-table.Snapshot().Compacted()+1)
			if err := table.Compact(at); err != nil {
				t.Fatal(err)
			}
			if got := table.Snapshot().Compacted(); got != at {
				t.Fatalf("Compact(%d) compacted to %d", at, got)
			}
		}
		compare(t, rnd, table.Snapshot(), m, keys)
	}
}

// commit makes one random transaction, on both sides; some fail.
func commit(t *testing.T, rnd *rand.Rand, table *Table[int], m *model, keys int) {
	next := m.begin()
	var changes []Change[int]
	fail := rnd.IntN(10) == 0
	grow := rnd.IntN(2) == 0
	n := 1
	if rnd.IntN(4) == 0 {
		n = rnd.IntN(200)
	}
	want := table.Revision()
	failed := errors.New("no")
	got, err := table.Update(func(tx *Txn[int]) error {
		for range n {
			key := fmt.Sprintf("k%06d", rnd.IntN(keys))
			was, existed := next[key]
			if v, rev, ok := tx.Get(key); ok != existed || v != was.Value || rev != was.Revision {
				t.Fatalf("tx.Get(%s) = %d, %d, %v; want %v", key, v, rev, ok, was)
			}
			if grow == (rnd.IntN(4) != 0) {
				v := rnd.Int()
				old, replaced := tx.Set(key, v)
				if old != was.Value || replaced != existed {
					t.Fatalf("Set(%s) = %d, %v; want %v", key, old, replaced, was)
				}
				next[key] = Entry[int]{key, tx.Revision(), v}
				changes = append(changes, Change[int]{Key: key, Revision: tx.Revision(), New: v, Old: was.Value, OldRevision: was.Revision})
				continue
			}
			old, deleted := tx.Delete(key)
			if old != was.Value || deleted != existed {
				t.Fatalf("Delete(%s) = %d, %v; want %v", key, old, deleted, was)
			}
			delete(next, key)
			if existed {
				changes = append(changes, Change[int]{Key: key, Revision: tx.Revision(), Deleted: true, Old: was.Value, OldRevision: was.Revision})
			}
		}
		if tx.Len() != len(next) {
			t.Fatalf("tx.Len() = %d, want %d", tx.Len(), len(next))
		}
		if fail {
			return failed
		}
		return nil
	})
	if fail {
		if err != failed {
			t.Fatalf("Update returned %v, want fn's error", err)
		}
		changes = nil
	} else if err != nil {
		t.Fatal(err)
	}
	if len(changes) > 0 {
		want++
		m.versions = append(m.versions, next)
		m.changes = append(m.changes, changes...)
	}
	if got != want || table.Revision() != want {
		t.Fatalf("Update returned revision %d, table is at %d, want %d", got, table.Revision(), want)
	}
}

func compare(t *testing.T, rnd *rand.Rand, s Snapshot[int], m *model, keys int) {
	t.Helper()
	oldest, newest := s.Compacted(), s.Revision()
	if newest != uint64(len(m.versions)-1) {
		t.Fatalf("revision %d, want %d", newest, len(m.versions)-1)
	}
	compareVersion(t, rnd, s, m, keys)
	at := oldest + rnd.Uint64N(newest-oldest+1)
	old, err := s.At(at)
	if err != nil {
		t.Fatal(err)
	}
	compareVersion(t, rnd, old, m, keys)

	since, err := old.Changes(oldest)
	if err != nil {
		t.Fatal(err)
	}
	var want []Change[int]
	for _, c := range m.changes {
		if c.Revision > oldest && c.Revision <= at {
			want = append(want, c)
		}
	}
	if got := slices.Collect(since); !slices.Equal(got, want) {
		t.Fatalf("changes %d..%d:\n got %v\nwant %v", oldest, at, got, want)
	}
	if _, err := s.At(newest + 1); !errors.Is(err, ErrFuture) {
		t.Fatalf("At(newest+1): %v", err)
	}
	if _, err := s.Changes(oldest - 1); oldest > 0 && !errors.Is(err, ErrCompacted) {
		t.Fatalf("Changes(oldest-1): %v", err)
	}
}

func compareVersion(t *testing.T, rnd *rand.Rand, s Snapshot[int], m *model, keys int) {
	t.Helper()
	want := m.versions[s.Revision()]
	if got := contents(s); !maps.Equal(got, want) || s.Len() != len(want) {
		t.Fatalf("content at %d (length %d):\n got %v\nwant %v", s.Revision(), s.Len(), got, want)
	}
	for range 5 {
		from, to := fmt.Sprintf("k%06d", rnd.IntN(keys)), fmt.Sprintf("k%06d", rnd.IntN(keys+1))
		var wantKeys, gotKeys []string
		for k := range want {
			if k >= from && k < to {
				wantKeys = append(wantKeys, k)
			}
		}
		slices.Sort(wantKeys)
		for e := range s.Range(from, to) {
			gotKeys = append(gotKeys, e.Key)
		}
		if !slices.Equal(gotKeys, wantKeys) || s.Count(from, to) != len(wantKeys) {
			t.Fatalf("Range(%s, %s): got %v (count %d), want %v", from, to, gotKeys, s.Count(from, to), wantKeys)
		}
		e := want[from]
		if v, rev, ok := s.Get(from); v != e.Value || rev != e.Revision || ok != (e.Revision > 0) {
			t.Fatalf("Get(%s) = %d, %d, %v; want %v", from, v, rev, ok, e)
		}
	}
}
