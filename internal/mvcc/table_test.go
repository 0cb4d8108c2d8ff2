package mvcc

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
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
	for keys, rounds := range map[int]int{5: 400, 300: 300, 20_000: 40} {
		t.Run(fmt.Sprintf("keys=%d", keys), func(t *testing.T) {
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			runModel(t, rand.New(rand.NewPCG(seed, 0)), keys, rounds)
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

type weight int

func (w weight) Weight() int { return int(w) }

func TestHistoryWeight(t *testing.T) {
	const limit = 5000
	table := New[weight](Options{History: 10_000, HistoryWeight: limit})
	for i := range 2000 {
		set(t, table, "k", weight(i%50))
		kept, chunkWeight := 0, 0
		s := table.Snapshot()
		changes, err := s.Changes(s.Compacted())
		if err != nil {
			t.Fatal(err)
		}
		for c := range changes {
			kept += int(c.Old)
			if c.Revision <= s.Compacted()+chunkLen {
				chunkWeight += int(c.Old)
			}
		}
		if s.s.history.weight != kept {
			t.Fatalf("write %d: history thinks it weighs %d, but it is %d", i, s.s.history.weight, kept)
		}
		if kept > limit && len(s.s.history.chunks) > 1 {
			t.Fatalf("write %d: history weighs %d, more than %d", i, kept, limit)
		}
		if i > 300 && kept+chunkWeight < limit/2 {
			t.Fatalf("write %d: history weighs only %d", i, kept)
		}
	}
}

func set[V any](t testing.TB, table *Table[V], key string, value V) uint64 {
	t.Helper()
	revision, err := table.Update(func(tx *Txn[V]) error {
		tx.Set(key, value)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

func TestChangedWakes(t *testing.T) {
	table := New[int](Options{})
	now := table.Changed(0)
	select {
	case <-now:
		t.Fatal("woken without a change")
	default:
	}
	revision := set(t, table, "k", 1)
	<-now
	<-table.Changed(revision - 1)
	later := table.Changed(revision)
	if _, err := table.Update(func(*Txn[int]) error { return nil }); err != nil {
		t.Fatal(err)
	}
	select {
	case <-later:
		t.Fatal("woken by a transaction without a change")
	default:
	}
	if _, err := table.Update(func(tx *Txn[int]) error { tx.Delete("k"); return nil }); err != nil {
		t.Fatal(err)
	}
	<-later
}

// TestReadersDuringWrites checks, best under the race detector, that each snapshot is one revision: all keys are written in
// every transaction, so all must have the snapshot's revision as their value.
func TestReadersDuringWrites(t *testing.T) {
	const keys, writes = 200, 500
	table := New[uint64](Options{History: 1000})
	var readers sync.WaitGroup
	done := make(chan struct{})
	for range 3 {
		readers.Go(func() {
			seen := uint64(0)
			for {
				s := table.Snapshot()
				if s.Revision() < seen {
					t.Errorf("revision went from %d to %d", seen, s.Revision())
				}
				for e := range s.All() {
					if e.Value != s.Revision() {
						t.Errorf("%s has value %d at revision %d", e.Key, e.Value, s.Revision())
						return
					}
				}
				changes, err := s.Changes(seen)
				if errors.Is(err, ErrCompacted) {
					changes, err = s.Changes(s.Compacted())
					seen = s.Compacted()
				}
				if err != nil {
					t.Error(err)
					return
				}
				for c := range changes {
					if c.New != c.Revision || c.Revision < seen {
						t.Errorf("change %+v after revision %d", c, seen)
					}
					seen = c.Revision
				}
				select {
				case <-done:
					return
				case <-table.Changed(s.Revision()):
				}
			}
		})
	}
	for range writes {
		if _, err := table.Update(func(tx *Txn[uint64]) error {
			for k := range keys {
				tx.Set(fmt.Sprint(k), tx.Revision())
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	close(done)
	readers.Wait()
	if err := table.check(); err != nil {
		t.Error(err)
	}
}

// TestFailedUpdateLeavesNoTrace also covers a panic.
func TestFailedUpdateLeavesNoTrace(t *testing.T) {
	table := New[int](Options{History: 10})
	for i := range 100 {
		set(t, table, fmt.Sprint(i), i)
	}
	before := contents(table.Snapshot())
	fail := func(how func() error) {
		defer func() { _ = recover() }()
		_, err := table.Update(func(tx *Txn[int]) error {
			for i := range 200 {
				tx.Set(fmt.Sprint(i), -1)
				tx.Delete(fmt.Sprint(i / 2))
			}
			return how()
		})
		if err == nil {
			t.Error("Update did not return the error")
		}
	}
	fail(func() error { return errors.New("no") })
	fail(func() error { panic("no") })
	if got := contents(table.Snapshot()); !maps.Equal(got, before) {
		t.Errorf("content changed:\n got %v\nwant %v", got, before)
	}
	if revision := set(t, table, "next", 1); revision != 101 {
		t.Errorf("the next commit is revision %d, want 101", revision)
	}
	if err := table.check(); err != nil {
		t.Error(err)
	}
}

func TestPrefixEnd(t *testing.T) {
	for prefix, want := range map[string]string{"": "", "a": "b", "a/": "a0", "a\xff": "b", "\xff\xff": "", "a\xfe": "a\xff"} {
		if got := PrefixEnd(prefix); got != want {
			t.Errorf("PrefixEnd(%q) = %q, want %q", prefix, got, want)
		}
	}
}

// TestFill checks that nodes are used well: nearly full when keys arrive in order, and not less than half full on average
// after random writes and deletions.
func TestFill(t *testing.T) {
	const n = 20_000
	inOrder := New[int](Options{})
	if _, err := inOrder.Update(func(tx *Txn[int]) error {
		for i := range n {
			tx.Set(fmt.Sprintf("%08d", i), i)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if fill := leafFill(inOrder.current.Load().root); fill < 0.9 {
		t.Errorf("leaves are filled to %.2f after writes in order, want 0.9", fill)
	}
	random := New[int](Options{})
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		if _, err := random.Update(func(tx *Txn[int]) error {
			for range n / 4 {
				tx.Set(fmt.Sprintf("%08d", rnd.IntN(n)), 0)
				tx.Delete(fmt.Sprintf("%08d", rnd.IntN(n)))
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := random.check(); err != nil {
		t.Fatal(err)
	}
	if fill := leafFill(random.current.Load().root); fill < 0.5 {
		t.Errorf("leaves are filled to %.2f after random writes, want 0.5", fill)
	}
}

func leafFill(n *node[int]) float64 {
	leaves := 0
	var walk func(n *node[int])
	walk = func(n *node[int]) {
		if n.links == nil {
			leaves++
		}
		for _, l := range n.links {
			walk(l.node)
		}
	}
	walk(n)
	return float64(n.size) / float64(leaves*maxLen)
}
