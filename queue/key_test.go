package queue

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestKeyWaitsOnce(t *testing.T) {
	q := New(Config[string]{})
	for range 5 {
		q.Add("a", Fresh, Cause{})
		q.Add("b", Fresh, Cause{})
	}
	if got, want := workOff(t, q), []string{"a", "b"}; !slices.Equal(got, want) {
		t.Errorf("handed out %v, want %v", got, want)
	}
}

func TestKeyAddedWhileRunningRunsOnceMore(t *testing.T) {
	q := New(Config[string]{})
	q.Add("a", Fresh, Cause{})
	take(t, q)
	for _, verb := range []string{"modified", "modified", "deleted"} {
		q.Add("a", Listed, Cause{Source: "For", Verb: verb})
	}
	q.Add("a", Fresh, Cause{Source: "Owns"})
	if n := q.Len(); n != 0 {
		t.Fatalf("%d keys to be had while a runs, want none", n)
	}
	q.Done("a")
	item := take(t, q)
	if item.Key != "a" || item.Class != Fresh || len(item.Causes) != 3 || item.Causes[0].Count != 2 {
		t.Errorf("after Done came %+v, want a, fresh, with three causes, the first counted twice", item)
	}
	q.Done("a")
	if n := q.Len(); n != 0 {
		t.Errorf("%d keys left, want none: four adds make one more run", n)
	}
}

func TestDoneOfKeyThatDoesNotRunDoesNothing(t *testing.T) {
	q := New(Config[string]{})
	q.Add("a", Fresh, Cause{})
	q.Done("a")
	q.Done("b")
	if got := workOff(t, q); !slices.Equal(got, []string{"a"}) {
		t.Errorf("handed out %v, want a once", got)
	}
}

// TestOneKeyOneWorker lets many goroutines add and work on few keys, and watches that no key is in two hands and that
// the last add of each is followed by a run.
func TestOneKeyOneWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys, adders, workers, adds = 5, 4, 8, 3000
		q := New(Config[string]{Flow: func(key string) string { return key }})
		var mu sync.Mutex
		running, added, seen := map[string]bool{}, map[string]int{}, map[string]int{}
		note := func(do func()) {
			mu.Lock()
			defer mu.Unlock()
			do()
		}
		for range workers {
			go func() {
				for {
					item, err := q.Get(context.Background())
					if err != nil {
						return
					}
					note(func() {
						if running[item.Key] {
							t.Errorf("%s handed out twice", item.Key)
						}
						running[item.Key] = true
						seen[item.Key] = added[item.Key]
					})
					runtime.Gosched()
					note(func() { running[item.Key] = false })
					q.Done(item.Key)
				}
			}()
		}
		for a := range adders {
			go func() {
				for i := range adds {
					key := fmt.Sprint(i * (a + 1) % keys)
					note(func() { added[key]++ })
					switch i % 3 {
					case 0:
						q.Add(key, Class(i%Classes), Cause{Version: fmt.Sprint(i)})
					case 1:
						q.AddAfter(key, time.Microsecond, Cause{})
					case 2:
						q.AddRateLimited(key, Cause{})
						q.Forget(key)
					}
				}
			}()
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		for key, n := range added {
			if seen[key] != n {
				t.Errorf("%s was last run after %d of %d adds", key, seen[key], n)
			}
		}
		if s := q.Stats(); s.Running+s.Rerun+s.Delayed+q.Len() != 0 {
			t.Errorf("an idle queue holds %+v", s)
		}
		q.ShutDown()
	})
}

func TestGetWaitsForWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Config[string]{})
		first, second := waitIn(t.Context(), q), waitIn(t.Context(), q)
		synctest.Wait()
		q.Add("a", Fresh, Cause{})
		q.AddAfter("b", time.Hour, Cause{})
		start := time.Now()
		got := []string{<-first, <-second}
		slices.Sort(got)
		if !slices.Equal(got, []string{"a", "b"}) || time.Since(start) != time.Hour {
			t.Errorf("got %v after %v, want a, and b after an hour", got, time.Since(start))
		}
	})
}

func TestGetEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Config[string]{})
		ctx, cancel := context.WithCancel(t.Context())
		gone, stays := waitIn(ctx, q), waitIn(t.Context(), q)
		synctest.Wait()
		cancel()
		if got := <-gone; got != "error: context canceled" {
			t.Errorf("cancelled Get returned %q", got)
		}
		// The key must go to the Get that still waits, not to the one that is gone.
		q.Add("a", Fresh, Cause{})
		if got := <-stays; got != "a" {
			t.Errorf("the other Get returned %q, want a", got)
		}
		q.Add("b", Fresh, Cause{})
		if _, err := q.Get(ctx); err != context.Canceled {
			t.Errorf("Get with an ended context returned %v although there is a key; want %v", err, context.Canceled)
		}
		q.ShutDown()
	})
}

func TestQueueForgetsKeysThatAreDone(t *testing.T) {
	q := New(Config[string]{Flow: func(key string) string { return key }})
	for i := range 3 * maxFree {
		q.Add(fmt.Sprint(i), Fresh, Cause{})
	}
	workOff(t, q)
	if q.entries.len() > batch {
		t.Errorf("%d entries are kept for dropping them together, want at most %d", q.entries.len(), batch)
	}
	q.sweep()
	if q.entries.len()+len(q.flows) > 0 || len(q.entries.slots) > 2*minSlots || len(q.freeEntries) > maxFree || len(q.freeFlows) > maxFree {
		t.Errorf("an empty queue holds %d entries in %d slots, %d flows, %d + %d free ones",
			q.entries.len(), len(q.entries.slots), len(q.flows), len(q.freeEntries), len(q.freeFlows))
	}
}
