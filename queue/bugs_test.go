package queue

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// The tests of this file are named after bugs of controller-runtime's priority queue: its issue or pull request.

// With an item queued at shut-down, the first Get took the item and the second blocked for ever.
func TestBug3239ShutDownUnblocksGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Config[string]{})
		q.Add("a", Fresh, Cause{})
		q.ShutDown()
		for range 2 {
			if got := <-waitIn(t.Context(), q); got != "error: "+ErrShutDown.Error() {
				t.Errorf("Get returned %q, want %v", got, ErrShutDown)
			}
		}
	})
}

// Items were handed over while the lock was held: a shut-down at that moment locked up everything.
func TestBug3538ShutDownWhileAddingDoesNotDeadlock(t *testing.T) {
	for range 200 {
		q := New(Config[string]{})
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				for {
					item, err := q.Get(context.Background())
					if err != nil {
						return
					}
					q.Done(item.Key)
				}
			})
		}
		for a := range 2 {
			all.Go(func() {
				for i := range 200 {
					q.Add(fmt.Sprint(a, i), Fresh, Cause{})
					q.AddAfter(fmt.Sprint(a, -i), time.Microsecond, Cause{})
				}
			})
		}
		all.Go(q.ShutDown)
		all.Wait()
	}
}

// A count of waiting Gets that was not kept right let items of low priority out before those of high priority.
func TestBug3363WaitersGetTheMostUrgentKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Config[string]{Slack: Slack{Planned: -1}})
		// Gets come and go, so that stale ones would show.
		for range 5 {
			ctx, cancel := context.WithCancel(t.Context())
			gone := waitIn(ctx, q)
			synctest.Wait()
			cancel()
			<-gone
		}
		waits := []<-chan string{waitIn(t.Context(), q), waitIn(t.Context(), q), waitIn(t.Context(), q)}
		synctest.Wait()
		for i := range 10 {
			q.Add(fmt.Sprint("listed-", i), Listed, Cause{})
		}
		for _, w := range waits {
			if got := <-w; !slices.Contains([]string{"listed-0", "listed-1", "listed-2"}, got) {
				t.Errorf("a waiting Get returned %s, want one of the first three", got)
			}
		}
		for i := range 5 {
			q.Add(fmt.Sprint("fresh-", i), Fresh, Cause{})
			q.AddAfter(fmt.Sprint("planned-", i), time.Second, Cause{})
		}
		time.Sleep(time.Second)
		want := []string{
			"fresh-0", "fresh-1", "fresh-2", "fresh-3", "fresh-4",
			"planned-0", "planned-1", "planned-2", "planned-3", "planned-4",
			"listed-3", "listed-4", "listed-5", "listed-6", "listed-7", "listed-8", "listed-9",
		}
		if got := workOff(t, q); !slices.Equal(got, want) {
			t.Errorf("handed out %v, want %v", got, want)
		}
		q.ShutDown()
	})
}

// A dump of the queue raced with adds. It means something under the race detector.
func TestBug3593SnapshotWhileAdding(t *testing.T) {
	q := New(Config[string]{Flow: flowOf, Retries: Bucket{Rate: 100}})
	var all sync.WaitGroup
	for a := range 3 {
		all.Go(func() {
			for i := range 500 {
				key := fmt.Sprintf("flow-%d/key-%d", i%7, i%50)
				switch a {
				case 0:
					q.Add(key, Class(i%Classes), Cause{Source: fmt.Sprint(i % 20)})
				case 1:
					q.AddAfter(key, time.Duration(i)*time.Microsecond, Cause{})
				case 2:
					q.AddRateLimited(key, Cause{})
				}
			}
		})
	}
	ctx, cancel := context.WithCancel(context.Background())
	var working sync.WaitGroup
	working.Go(func() {
		for {
			item, err := q.Get(ctx)
			if err != nil {
				return
			}
			q.Add(item.Key, Fresh, Cause{Source: "again"})
			q.Done(item.Key)
		}
	})
	for range 50 {
		s := q.Snapshot(20)
		for _, w := range s.Waiting {
			for i := range w.Causes {
				w.Causes[i].Count = 0 // the caller owns them
			}
		}
	}
	all.Wait()
	cancel()
	working.Wait()
	q.ShutDown()
}
