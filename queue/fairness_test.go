package queue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestFlowsTakeTurns(t *testing.T) {
	for _, class := range []Class{Fresh, Listed} {
		t.Run(class.String(), func(t *testing.T) {
			q := New(Config[string]{Flow: flowOf})
			for _, key := range []string{"a/1", "a/2", "a/3", "a/4", "b/1", "c/1", "c/2"} {
				q.Add(key, class, Cause{})
			}
			want := []string{"a/1", "b/1", "c/1", "a/2", "c/2", "a/3", "a/4"}
			if got := workOff(t, q); !slices.Equal(got, want) {
				t.Errorf("handed out %v, want %v", got, want)
			}
		})
	}
}

func TestFreshGoesBeforeListedOfOtherFlows(t *testing.T) {
	q := New(Config[string]{Flow: flowOf})
	for i := range 100 {
		q.Add(fmt.Sprintf("flow-%d/listed", i), Listed, Cause{})
	}
	q.Add("other/fresh", Fresh, Cause{})
	if item := take(t, q); item.Key != "other/fresh" {
		t.Errorf("got %s first, want the fresh change", item.Key)
	}
}

// TestWaitIsBoundedInDequeues checks the bound that the package comment states, over 1000 flows of which one
// is poisoned: it always has thousands of keys waiting and gets several new ones for each that is handed out.
func TestWaitIsBoundedInDequeues(t *testing.T) {
	const seed, flows, dequeues = 7, 1000, 12_000
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	q := New(Config[string]{Flow: flowOf})

	type waiting struct {
		key     string
		ahead   int // keys of its flow that were due before it
		waited  int // dequeues
		busiest int // the most flows that had due keys meanwhile
	}
	var lines [flows][]*waiting // what waits, by flow, in the order of the adds
	serial := 0
	add := func(flow int) {
		serial++
		w := &waiting{key: fmt.Sprintf("%d/%d", flow, serial), ahead: len(lines[flow])}
		lines[flow] = append(lines[flow], w)
		q.Add(w.key, Fresh, Cause{})
	}
	for range 5000 {
		add(0)
	}
	worst, longest := 0.0, 0
	for range dequeues {
		for range 3 {
			add(0)
		}
		for range random.IntN(3) {
			add(1 + random.IntN(flows-1))
		}
		busy := 0
		for _, line := range lines {
			if len(line) > 0 {
				busy++
			}
		}
		item := take(t, q)
		q.Done(item.Key)
		var flow int
		fmt.Sscanf(item.Key, "%d/", &flow)
		if lines[flow][0].key != item.Key {
			t.Fatalf("%s was handed out before %s of the same flow", item.Key, lines[flow][0].key)
		}
		for _, line := range lines {
			for _, w := range line[:min(len(line), 50)] { // of the poisoned flow the first are enough
				w.waited++
				w.busiest = max(w.busiest, busy)
			}
		}
		w := lines[flow][0]
		lines[flow] = lines[flow][1:]
		if flow == 0 {
			continue
		}
		bound := (w.ahead + 1) * w.busiest
		if w.waited > bound {
			t.Fatalf("%s waited for %d dequeues, more than (%d + 1) × %d", w.key, w.waited, w.ahead, w.busiest)
		}
		worst = max(worst, float64(w.waited)/float64(bound))
		longest = max(longest, w.waited)
	}
	t.Logf("longest wait %d dequeues, closest to the bound %.2f", longest, worst)
	if worst < 0.5 || longest < 100 {
		t.Errorf("the load was too light to prove anything: longest wait %d, closest to the bound %.2f", longest, worst)
	}
}

// TestPoisonedKeySlowsOnlyItself has one key of a flow come back each time that it runs; its neighbours
// of the same flow lose one turn to it, not more.
func TestPoisonedKeySlowsOnlyItself(t *testing.T) {
	q := New(Config[string]{})
	q.Add("poisoned", Fresh, Cause{})
	for i := range 10 {
		q.Add(fmt.Sprint(i), Fresh, Cause{})
	}
	var got []string
	for len(got) < 14 {
		item := take(t, q)
		got = append(got, item.Key)
		if item.Key == "poisoned" {
			q.Add("poisoned", Fresh, Cause{}) // while it runs
		}
		q.Done(item.Key)
		q.Add("poisoned", Fresh, Cause{}) // and at every other time
	}
	want := []string{"poisoned", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "poisoned", "poisoned", "poisoned"}
	if !slices.Equal(got, want) {
		t.Errorf("handed out %v, want %v", got, want)
	}
}

// TestRetriesShareTheBucketByFlow lets a whole flow fail and one key of another; the latter must not stand in the
// former's line for a token.
func TestRetriesShareTheBucketByFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Config[string]{Flow: flowOf, Retries: Bucket{Rate: 1}, Slack: Slack{Retry: -1}})
		for i := range 1000 {
			q.AddRateLimited(fmt.Sprintf("poisoned/%d", i), Cause{})
		}
		q.AddRateLimited("other/key", Cause{})
		start := time.Now()
		for {
			item, err := q.Get(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if item.Key == "other/key" {
				break
			}
		}
		if waited := time.Since(start); waited > 3*time.Second {
			t.Errorf("the other flow's retry waited %v for a token, want at most two turns", waited)
		}
		q.ShutDown()
	})
}
