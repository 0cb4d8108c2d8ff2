package mvcc

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
)

func keysInOrder(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("namespace-%03d/pod-%07d", i*100/n, i)
	}
	return keys
}

func filled(b *testing.B, o Options, n int) (*Table[*int], []string) {
	b.Helper()
	keys := keysInOrder(n)
	t := New[*int](o)
	if _, err := t.Update(func(tx *Txn[*int]) error {
		for _, k := range keys {
			tx.Set(k, nil)
		}
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	return t, keys
}

var sizes = []int{1_000, 100_000, 1_000_000}

func BenchmarkGet(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			t, keys := filled(b, Options{}, n)
			rnd := rand.New(rand.NewPCG(1, 0))
			for b.Loop() {
				t.Snapshot().Get(keys[rnd.IntN(n)])
			}
		})
	}
}

func BenchmarkSet(b *testing.B) {
	for _, n := range sizes {
		for _, history := range []int{0, 10_000} {
			b.Run(fmt.Sprintf("%d/history=%d", n, history), func(b *testing.B) {
				t, keys := filled(b, Options{History: history}, n)
				rnd := rand.New(rand.NewPCG(1, 0))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := t.Update(func(tx *Txn[*int]) error {
						tx.Set(keys[rnd.IntN(n)], nil)
						return nil
					}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkScan(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			t, _ := filled(b, Options{}, n)
			for b.Loop() {
				for range t.Snapshot().All() {
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/entry")
		})
	}
}

func BenchmarkCount(b *testing.B) {
	t, _ := filled(b, Options{}, 1_000_000)
	for b.Loop() {
		t.Snapshot().Count("namespace-020/", "namespace-090/")
	}
}

func BenchmarkAt(b *testing.B) {
	t, keys := filled(b, Options{History: 10_000}, 100_000)
	rnd := rand.New(rand.NewPCG(1, 0))
	start := t.Revision()
	for range 10_000 {
		if _, err := t.Update(func(tx *Txn[*int]) error {
			tx.Set(keys[rnd.IntN(len(keys))], nil)
			return nil
		}); err != nil {
			b.Fatal(err)
		}
	}
	for _, back := range []uint64{10, 1000, 10_000} {
		b.Run(fmt.Sprintf("changes=%d", back), func(b *testing.B) {
			for b.Loop() {
				if _, err := t.Snapshot().At(start + 10_000 - back); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkLoad fills a table in order and at random, in one transaction, and reports the heap that an entry costs beside its
// key and value.
func BenchmarkLoad(b *testing.B) {
	const n = 1_000_000
	for _, order := range []string{"ascending", "random"} {
		b.Run(order, func(b *testing.B) {
			keys := keysInOrder(n)
			if order == "random" {
				rand.New(rand.NewPCG(1, 0)).Shuffle(n, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
			}
			var before, after runtime.MemStats
			for b.Loop() {
				runtime.GC()
				runtime.ReadMemStats(&before)
				t := New[*int](Options{})
				if _, err := t.Update(func(tx *Txn[*int]) error {
					for _, k := range keys {
						tx.Set(k, nil)
					}
					return nil
				}); err != nil {
					b.Fatal(err)
				}
				runtime.GC()
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "heap-B/entry")
				runtime.KeepAlive(t)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/entry")
		})
	}
}
