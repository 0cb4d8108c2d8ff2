package queue

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// nextAfter waits for the next key and returns it with the time that this took, as text.
func nextAfter(t *testing.T, q *Queue[string]) string {
	t.Helper()
	start := time.Now()
	item, err := q.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	q.Done(item.Key)
	return fmt.Sprintf("%s %v", item.Key, time.Since(start))
}

func TestPlans(t *testing.T) {
	const s = time.Second
	for _, test := range []struct {
		name string
		do   func(q *Queue[string])
		want []string // what comes, and when after the one before
	}{
		{"in the order of their times",
			func(q *Queue[string]) {
				q.AddAfter("b", 2*s, Cause{})
				q.AddAfter("c", 3*s, Cause{})
				q.AddAfter("a", s, Cause{})
			}, []string{"a 1s", "b 1s", "c 1s"}},
		{"of equal times in the order of the calls",
			func(q *Queue[string]) {
				for _, key := range []string{"e", "d", "c", "b", "a"} {
					q.AddAfter(key, s, Cause{})
				}
			}, []string{"e 1s", "d 0s", "c 0s", "b 0s", "a 0s"}},
		{"a later one does not replace an earlier one",
			func(q *Queue[string]) { q.AddAfter("a", s, Cause{}); q.AddAfter("a", 5*s, Cause{}) }, []string{"a 1s"}},
		{"an earlier one replaces a later one",
			func(q *Queue[string]) { q.AddAfter("a", 5*s, Cause{}); q.AddAfter("a", s, Cause{}) }, []string{"a 1s"}},
		{"none or less is at once",
			func(q *Queue[string]) { q.AddAfter("a", 0, Cause{}); q.AddAfter("b", -s, Cause{}) }, []string{"a 0s", "b 0s"}},
		{"a change runs at once and stands for the plan",
			func(q *Queue[string]) { q.AddAfter("a", s, Cause{}); q.Add("a", Fresh, Cause{}) }, []string{"a 0s"}},
		{"a key that is about to run needs no plan",
			func(q *Queue[string]) { q.Add("a", Fresh, Cause{}); q.AddAfter("a", s, Cause{}) }, []string{"a 0s"}},
		{"a retry and an earlier plan are one run",
			func(q *Queue[string]) { q.AddRateLimited("a", Cause{}); q.AddAfter("a", time.Millisecond, Cause{}) }, []string{"a 1ms"}},
		{"a plan and an earlier retry are one run",
			func(q *Queue[string]) { q.AddAfter("a", s, Cause{}); q.AddRateLimited("a", Cause{}) }, []string{"a 5ms"}},
		{"the longest there is",
			func(q *Queue[string]) { q.AddAfter("b", 1<<63-1, Cause{}); q.AddAfter("a", s, Cause{}) }, []string{"a 1s"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := New(Config[string]{})
				test.do(q)
				for _, want := range test.want {
					if got := nextAfter(t, q); got != want {
						t.Errorf("came %s, want %s", got, want)
					}
				}
				time.Sleep(time.Hour)
				if got := workOff(t, q); len(got) > 0 {
					t.Errorf("later came %v, want nothing", got)
				}
				q.ShutDown()
			})
		})
	}
}

// TestPlanOfRunningKey is what a reconcile that returns RequeueAfter does: the plan is made while the key runs.
func TestPlanOfRunningKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Config[string]{})
		q.Add("a", Fresh, Cause{})
		take(t, q)
		q.AddAfter("a", time.Minute, Cause{Source: "After"})
		q.Done("a")
		if got := nextAfter(t, q); got != "a 1m0s" {
			t.Errorf("came %s, want a after a minute", got)
		}

		// It comes due while the key runs: once more after Done.
		q.Add("a", Fresh, Cause{})
		take(t, q)
		q.AddAfter("a", time.Second, Cause{Source: "After"})
		time.Sleep(time.Minute)
		if q.Len() != 0 {
			t.Error("a was to be had while it runs")
		}
		q.Done("a")
		item := take(t, q)
		if item.Class != Planned || len(item.Causes) != 1 || item.Causes[0].Source != "After" {
			t.Errorf("after Done came %+v, want the plan", item)
		}
	})
}

// TestPlanHurriesListedKey shows that a key which waits with a long slack is still due when its plan says.
func TestPlanHurriesListedKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Config[string]{Slack: Slack{Planned: -1, Listed: time.Hour}})
		q.AddAfter("a", time.Minute, Cause{})
		q.Add("a", Listed, Cause{})
		time.Sleep(time.Minute)
		q.Add("b", Fresh, Cause{})
		if got := workOff(t, q); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("handed out %v, want a, whose plan was due, before b", got)
		}
	})
}

// fail runs the key once, which must be there, and lets it fail.
func fail(t *testing.T, q *Queue[string], key string) {
	t.Helper()
	item := take(t, q)
	if item.Key != key {
		t.Fatalf("got %s, want %s", item.Key, key)
	}
	q.AddRateLimited(key, Cause{Source: "Retry"})
	q.Done(key)
}

func TestBackoffDoublesToItsMaximum(t *testing.T) {
	for _, test := range []struct {
		name    string
		backoff Backoff
		want    []time.Duration
	}{
		{"default", Backoff{}, func() (waits []time.Duration) {
			for wait := 5 * time.Millisecond; wait < 1000*time.Second; wait *= 2 {
				waits = append(waits, wait)
			}
			return append(waits, 1000*time.Second, 1000*time.Second)
		}()},
		{"set", Backoff{Base: time.Second, Max: 5 * time.Second},
			[]time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := New(Config[string]{Backoff: test.backoff})
				q.Add("a", Fresh, Cause{})
				for i, want := range test.want {
					fail(t, q, "a")
					start := time.Now()
					item, err := q.Get(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if waited := time.Since(start); waited != want || item.Failures != i+1 || item.Class != Retry {
						t.Errorf("retry %d: %v, failures %d, after %v; want after %v", i+1, item.Class, item.Failures, waited, want)
					}
					q.Done("a")
					q.Add("a", Fresh, Cause{})
				}
				q.ShutDown()
			})
		})
	}
}

func TestBackoffOfHugeLimitsDoesNotOverflow(t *testing.T) {
	b := Backoff{Base: 1 << 61, Max: 1<<63 - 1}
	if got := b.after(5); got != b.Max {
		t.Errorf("back-off %v, want %v", got, b.Max)
	}
	if got := (Backoff{}).withDefaults().after(maxFailures); got != 1000*time.Second {
		t.Errorf("back-off %v, want 1000s", got)
	}
}

func TestForgetResetsBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Config[string]{})
		q.Add("a", Fresh, Cause{})
		for range 6 {
			fail(t, q, "a")
			time.Sleep(time.Second)
		}
		q.Forget("a")
		fail(t, q, "a")
		if got := nextAfter(t, q); got != "a 5ms" {
			t.Errorf("came %s, want a after the shortest back-off", got)
		}
		q.Forget("a")
		q.sweep()
		if q.entries.len() != 0 {
			t.Error("the queue still knows the key")
		}
		q.ShutDown()
	})
}

// TestFreshChangeRunsAtOnceAndKeepsFailures: what failed five times and is changed then runs without waiting, and if it
// fails again, it waits for the sixth back-off.
func TestFreshChangeRunsAtOnceAndKeepsFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Config[string]{})
		q.Add("a", Fresh, Cause{})
		for range 5 {
			fail(t, q, "a")
			time.Sleep(75 * time.Millisecond)
			q.Add("a", Fresh, Cause{})
		}
		item := take(t, q)
		if item.Class != Fresh || item.Failures != 5 {
			t.Errorf("got %+v, want a fresh run with 5 failures", item)
		}
		q.AddRateLimited("a", Cause{})
		q.Done("a")
		if got := nextAfter(t, q); got != "a 160ms" {
			t.Errorf("came %s, want a after 160ms", got)
		}
		q.ShutDown()
	})
}

// TestPlanLeavesNoBackoff: waiting is not failing.
func TestPlanLeavesNoBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Config[string]{})
		q.Add("a", Fresh, Cause{})
		for range 10 {
			take(t, q)
			q.Forget("a")
			q.AddAfter("a", time.Second, Cause{})
			q.Done("a")
			time.Sleep(time.Second)
		}
		if s := q.Stats(); s.Retries != 0 {
			t.Errorf("%d retries counted, want none: plans are not retries", s.Retries)
		}
		fail(t, q, "a")
		if got := nextAfter(t, q); got != "a 5ms" {
			t.Errorf("came %s, want a after the shortest back-off", got)
		}
		q.ShutDown()
	})
}

func TestBucketLimitsRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Config[string]{Retries: Bucket{Rate: 2, Burst: 3}, Slack: Slack{Retry: -1}})
		start := time.Now()
		for i := range 7 {
			q.AddRateLimited(fmt.Sprint(i), Cause{})
		}
		q.Add("fresh", Fresh, Cause{})
		q.AddAfter("planned", 5*time.Millisecond, Cause{})
		var got []string
		for range 9 {
			item, err := q.Get(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprint(item.Key, " ", time.Since(start)))
		}
		want := []string{"fresh 0s", "0 5ms", "1 5ms", "2 5ms", "planned 5ms",
			"3 505ms", "4 1.005s", "5 1.505s", "6 2.005s"}
		if !slices.Equal(got, want) {
			t.Errorf("handed out %v, want %v: the bucket is for retries only", got, want)
		}
		// After a rest the burst is there again, and not more.
		time.Sleep(time.Hour)
		for i := range 7 {
			q.Done(fmt.Sprint(i))
			q.AddRateLimited(fmt.Sprint(i), Cause{})
		}
		time.Sleep(time.Second / 4)
		if n := q.Len(); n != 3 {
			t.Errorf("%d retries at once after a rest, want the burst of 3", n)
		}
		if s := q.Stats(); s.Throttled != 4 {
			t.Errorf("%d retries wait for a token, want 4", s.Throttled)
		}
		q.ShutDown()
	})
}

// TestFreshChangeNeedsNoToken: a retry that waits for a token makes way for a change of its key.
func TestFreshChangeNeedsNoToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Config[string]{Retries: Bucket{Rate: 0.001}})
		q.AddRateLimited("first", Cause{})
		q.AddRateLimited("a", Cause{})
		time.Sleep(time.Second)
		if got := workOff(t, q); !slices.Equal(got, []string{"first"}) {
			t.Fatalf("handed out %v, want the first", got)
		}
		q.Add("a", Fresh, Cause{})
		if got := workOff(t, q); !slices.Equal(got, []string{"a"}) {
			t.Errorf("handed out %v, want a at once", got)
		}
		if s := q.Stats(); s.Throttled != 0 || s.Delayed != 0 {
			t.Errorf("the run did not stand for the retry: %+v", s)
		}
		q.ShutDown()
	})
}
