package queue

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestOrderOfClasses adds keys at given times and takes all of them at the end.
func TestOrderOfClasses(t *testing.T) {
	type add struct {
		at    time.Duration
		key   string
		class Class
	}
	slack := Slack{Planned: time.Second, Retry: 2 * time.Second, Listed: 10 * time.Second}
	for _, test := range []struct {
		name string
		adds []add
		at   time.Duration // when the keys are taken
		want []string
	}{
		{"first come, first served within a class",
			[]add{{0, "c", Fresh}, {0, "a", Fresh}, {1, "b", Fresh}}, time.Second, []string{"c", "a", "b"}},
		{"classes at the same moment",
			[]add{{0, "listed", Listed}, {0, "retry", Retry}, {0, "planned", Planned}, {0, "fresh", Fresh}}, 0,
			[]string{"fresh", "planned", "retry", "listed"}},
		{"listed after fresh that came later, within the slack",
			[]add{{0, "l1", Listed}, {0, "l2", Listed}, {9 * time.Second, "f", Fresh}}, 9 * time.Second,
			[]string{"f", "l1", "l2"}},
		{"listed before fresh that came after its slack",
			[]add{{0, "l1", Listed}, {time.Second, "l2", Listed}, {10*time.Second + 1, "f", Fresh}}, 11 * time.Second,
			[]string{"l1", "f", "l2"}},
		{"listed before fresh that came when its slack was just used up",
			[]add{{0, "l", Listed}, {10 * time.Second, "f", Fresh}}, 20 * time.Second, []string{"l", "f"}},
		{"a fresh change moves a listed key forward, behind earlier fresh ones",
			[]add{{0, "l1", Listed}, {0, "l2", Listed}, {1, "f", Fresh}, {2, "l2", Fresh}, {3, "g", Fresh}}, time.Second,
			[]string{"f", "l2", "g", "l1"}},
		{"a listing does not move a fresh key back",
			[]add{{0, "f", Fresh}, {1, "g", Fresh}, {2, "f", Listed}}, time.Second, []string{"f", "g"}},
		{"a key keeps the earlier of two deadlines",
			[]add{{0, "l", Listed}, {9*time.Second + 500*time.Millisecond, "l", Planned}, {10*time.Second + 1, "f", Fresh}},
			11 * time.Second, []string{"l", "f"}},
		{"a due key does not lose its place to a more urgent add",
			[]add{{0, "l", Listed}, {11 * time.Second, "f", Fresh}, {12 * time.Second, "l", Fresh}}, 12 * time.Second,
			[]string{"l", "f"}},
		{"of equal deadlines the earlier arrival goes first",
			[]add{{0, "l", Listed}, {8 * time.Second, "r", Retry}, {9 * time.Second, "p", Planned}}, 0,
			[]string{"l", "r", "p"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := New(Config[string]{Slack: slack})
				start := time.Now()
				for _, a := range test.adds {
					time.Sleep(a.at - time.Since(start))
					q.Add(a.key, a.class, Cause{})
				}
				time.Sleep(test.at - time.Since(start))
				if got := workOff(t, q); !slices.Equal(got, test.want) {
					t.Errorf("handed out %v, want %v", got, test.want)
				}
			})
		})
	}
}

func TestItemTellsItsMostUrgentClass(t *testing.T) {
	q := New(Config[string]{})
	q.Add("a", Listed, Cause{})
	q.Add("a", Retry, Cause{})
	q.Add("a", Listed, Cause{})
	if item := take(t, q); item.Class != Retry {
		t.Errorf("class %v, want %v", item.Class, Retry)
	}
}

// TestListedRunsWithinItsSlackUnderLoad keeps a worker busier than it can be with fresh changes; the listing must still
// get its turn, and not before it has to.
func TestListedRunsWithinItsSlackUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const listed = 20
		q := New(Config[string]{Slack: Slack{Listed: 30 * time.Second}})
		for i := range listed {
			q.Add(fmt.Sprint("listed-", i), Listed, Cause{})
		}
		start := time.Now()
		fresh := 0
		add := func() {
			fresh++
			q.Add(fmt.Sprint("fresh-", fresh), Fresh, Cause{})
		}
		add()
		var runs []time.Duration
		for len(runs) < listed {
			if time.Since(start) > 10*time.Minute {
				t.Fatalf("after %v, %d of %d listed keys ran", time.Since(start), len(runs), listed)
			}
			add() // the next change is there before the worker is free
			item := take(t, q)
			if item.Class == Listed {
				runs = append(runs, time.Since(start))
			}
			time.Sleep(100 * time.Millisecond)
			q.Done(item.Key)
		}
		if runs[0] < 30*time.Second {
			t.Errorf("a listed key ran after %v, before fresh ones and within its slack", runs[0])
		}
		// The fresh keys that were waiting when the slack ended are at most those that came before.
		if last := runs[listed-1]; last > 30*time.Second+(listed+2)*100*time.Millisecond {
			t.Errorf("the last listed key ran after %v", last)
		}
	})
}
