package queue

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Config[string]{Flow: flowOf, Retries: Bucket{Rate: 1}})
		start := time.Now()
		q.Add("x/slow", Fresh, Cause{Source: "For"})
		q.Add("x/quick", Fresh, Cause{Source: "For"})
		take(t, q)
		time.Sleep(time.Second)
		take(t, q)
		q.Add("x/slow", Fresh, Cause{Source: "Owns"})
		q.AddRateLimited("x/first", Cause{Source: "Retry"})
		q.AddRateLimited("x/retry", Cause{Source: "Retry"})
		time.Sleep(100 * time.Millisecond)
		q.AddAfter("x/plan", time.Hour, Cause{Source: "After"})
		q.Add("y/listed", Listed, Cause{Source: "For"})
		q.Add("y/fresh", Fresh, Cause{Source: "For"})
		now := time.Now()

		cause := func(source string, at time.Time) []Cause {
			return []Cause{{Source: source, First: at, Last: at, Count: 1}}
		}
		second := start.Add(time.Second)
		want := Snapshot[string]{
			Stats: Stats{
				Ready: [Classes]int{Fresh: 1, Retry: 1, Listed: 1}, Delayed: 1, Throttled: 1, Rerun: 1, Running: 2,
				Unfinished: 1200 * time.Millisecond, Longest: 1100 * time.Millisecond, Adds: 6, Retries: 2,
			},
			Running: []Running[string]{
				{Key: "x/slow", Since: start, Age: 1100 * time.Millisecond, Causes: cause("For", start), Rerun: true},
				{Key: "x/quick", Since: second, Age: 100 * time.Millisecond, Causes: cause("For", start)},
			},
			Waiting: []Waiting[string]{
				{Key: "y/fresh", Flow: "y", State: "ready", Class: Fresh, Causes: cause("For", now), Since: now, Due: now},
				{Key: "x/first", Flow: "x", State: "ready", Class: Retry, Causes: cause("Retry", second), Failures: 1,
					Since: second.Add(5 * time.Millisecond), Due: second.Add(1005 * time.Millisecond)},
				{Key: "x/retry", Flow: "x", State: "throttled", Class: Retry, Causes: cause("Retry", second), Failures: 1,
					Due: second.Add(1005 * time.Millisecond)},
				{Key: "y/listed", Flow: "y", State: "ready", Class: Listed, Causes: cause("For", now), Since: now, Due: now.Add(time.Minute)},
				{Key: "x/plan", Flow: "x", State: "delayed", Class: Planned, Causes: cause("After", now), Due: now.Add(time.Hour)},
			},
		}
		got := q.Snapshot(10)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("snapshot (-want +got):\n%s", diff)
		}

		// It belongs to the caller.
		for _, r := range got.Running {
			r.Causes[0].Count = 0
		}
		for _, w := range got.Waiting {
			w.Causes[0].Count = 0
		}
		if diff := cmp.Diff(want, q.Snapshot(10)); diff != "" {
			t.Errorf("snapshot after the first was written to (-want +got):\n%s", diff)
		}
		q.ShutDown()
	})
}

func TestSnapshotKeepsToItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Config[string]{Flow: flowOf})
		var want []string
		for i := range 100 {
			key := fmt.Sprintf("flow-%d/%d", i%7, i)
			if i%2 == 0 {
				q.Add(key, Fresh, Cause{})
				want = append(want, key)
			} else {
				q.AddAfter(key, time.Hour-time.Duration(2*i), Cause{})
			}
			time.Sleep(time.Nanosecond)
		}
		for i := 99; i > 0; i -= 2 {
			want = append(want, fmt.Sprintf("flow-%d/%d", i%7, i))
		}
		for _, limit := range []int{0, 1, 5, 49, 60, 1000} {
			var got []string
			for _, w := range q.Snapshot(limit).Waiting {
				got = append(got, w.Key)
			}
			if limited := want[:min(limit, len(want))]; !slices.Equal(got, limited) {
				t.Errorf("limit %d: %v, want %v", limit, got, limited)
			}
		}
		q.ShutDown()
	})
}

func TestWaitAndWorkAreMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var waits, works []string
		q := New(Config[string]{
			Waited: func(c Class, d time.Duration) { waits = append(waits, fmt.Sprint(c, " ", d)) },
			Worked: func(d time.Duration) { works = append(works, d.String()) },
		})
		run := func(d time.Duration) {
			item, err := q.Get(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(d)
			q.Done(item.Key)
		}
		q.Add("a", Listed, Cause{})
		time.Sleep(time.Second)
		run(time.Minute)
		q.AddAfter("a", time.Hour, Cause{})
		run(2 * time.Minute)
		if want := []string{"listed 1s", "planned 0s"}; !slices.Equal(waits, want) {
			t.Errorf("waits %v, want %v: what is not due does not wait", waits, want)
		}
		if want := []string{"1m0s", "2m0s"}; !slices.Equal(works, want) {
			t.Errorf("works %v, want %v", works, want)
		}
		q.ShutDown()
	})
}
