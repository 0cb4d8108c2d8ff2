package queue

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCausesMerge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		at := func(d time.Duration) time.Time { return start.Add(d) }
		q := New(Config[string]{})
		pod := Cause{Source: "Owns", Kind: "Pod", Object: "ns/p", Verb: "modified", Version: "1"}
		q.Add("a", Fresh, pod)
		time.Sleep(time.Second)
		pod.Version = "2"
		q.Add("a", Listed, pod)
		pod.Verb = "deleted"
		q.Add("a", Fresh, pod)
		time.Sleep(time.Second)
		q.Add("a", Fresh, Cause{Source: "Watches", First: at(-time.Hour), Last: at(-time.Minute), Count: 3})
		want := []Cause{
			{Source: "Owns", Kind: "Pod", Object: "ns/p", Verb: "modified", Version: "2", First: at(0), Last: at(time.Second), Count: 2},
			{Source: "Owns", Kind: "Pod", Object: "ns/p", Verb: "deleted", Version: "2", First: at(time.Second), Last: at(time.Second), Count: 1},
			{Source: "Watches", First: at(-time.Hour), Last: at(-time.Minute), Count: 3},
		}
		if diff := cmp.Diff(want, take(t, q).Causes); diff != "" {
			t.Errorf("causes (-want +got):\n%s", diff)
		}
	})
}

func TestCausesAreBoundedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Config[string]{})
		const adds = 100
		start := time.Now()
		for i := range adds {
			q.Add("a", Fresh, Cause{Source: "Owns", Object: fmt.Sprint(i), Version: fmt.Sprint(i)})
			time.Sleep(time.Second)
		}
		causes := take(t, q).Causes
		if len(causes) != MaxCauses+1 {
			t.Fatalf("%d causes, want %d and one for the others", len(causes), MaxCauses)
		}
		total := 0
		for _, c := range causes {
			total += c.Count
		}
		if total != adds {
			t.Errorf("the counts add up to %d, want %d", total, adds)
		}
		want := Cause{Source: Other, Count: adds - MaxCauses, First: start.Add(MaxCauses * time.Second), Last: start.Add((adds - 1) * time.Second)}
		if diff := cmp.Diff(want, causes[MaxCauses]); diff != "" {
			t.Errorf("the others (-want +got):\n%s", diff)
		}
	})
}

// TestCauseOfPlan: a plan is the cause of the run that it makes, and of no other.
func TestCauseOfPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Config[string]{})
		q.AddAfter("a", time.Minute, Cause{Source: "After"})
		time.Sleep(time.Minute)
		item := take(t, q)
		if len(item.Causes) != 1 || item.Causes[0].Source != "After" || time.Since(item.Causes[0].First) != time.Minute {
			t.Errorf("causes %v, want the plan of a minute ago", item.Causes)
		}
		q.AddAfter("a", time.Minute, Cause{Source: "After"})
		q.Done("a")
		q.Add("a", Fresh, Cause{Source: "For"})
		item = take(t, q)
		if len(item.Causes) != 1 || item.Causes[0].Source != "For" {
			t.Errorf("causes %v, want only the change: the plan was not due", item.Causes)
		}
		q.ShutDown()
	})
}

// TestTimesFollowTheClockOfTheDay lets a queue live long and compares the times that it tells.
func TestTimesFollowTheClockOfTheDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Config[string]{})
		time.Sleep(1000 * time.Hour)
		q.Add("a", Fresh, Cause{})
		item := take(t, q)
		if !item.Added.Equal(time.Now()) || !item.Causes[0].First.Equal(time.Now()) {
			t.Errorf("added %v, cause %v, want %v", item.Added, item.Causes[0].First, time.Now())
		}
	})
}
