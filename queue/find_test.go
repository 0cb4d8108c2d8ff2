package queue

import (
	"testing"
	"testing/synctest"
	"time"
)

// Find tells how a key stands, in every state that it can be in.
func TestFind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Config[string]{Retries: Bucket{Rate: 0.01, Burst: 1}})
		defer q.ShutDown()
		says := func(when, wantRuns, wantWaits string) {
			t.Helper()
			runs, waits := q.Find("a")
			gotRuns, gotWaits := "", ""
			if runs != nil {
				gotRuns = runs.Causes[0].Source
				if runs.Rerun {
					gotRuns += " again"
				}
			}
			if waits != nil {
				gotWaits = waits.State + " " + waits.Class.String() + " " + waits.Causes[0].Source
			}
			if gotRuns != wantRuns || gotWaits != wantWaits {
				t.Errorf("%s: runs %q, waits %q; want %q and %q", when, gotRuns, gotWaits, wantRuns, wantWaits)
			}
		}
		take := func() {
			t.Helper()
			if item, err := q.Get(t.Context()); err != nil || item.Key != "a" {
				t.Fatalf("%v %v", item, err)
			}
		}
		says("at first", "", "")
		q.Add("b", Fresh, Cause{Source: "b"})
		says("beside another", "", "")
		if _, err := q.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
		q.Add("a", Fresh, Cause{Source: "For"})
		says("added", "", "ready fresh For")
		take()
		says("handed out", "For", "")
		q.Add("a", Listed, Cause{Source: "Owns"})
		says("added meanwhile", "For again", "")
		q.Done("a")
		says("done", "", "ready listed Owns")
		take()
		q.AddAfter("a", time.Minute, Cause{Source: "After"})
		says("planned while it runs", "Owns", "delayed planned After")
		q.Done("a")
		says("planned", "", "delayed planned After")
		time.Sleep(time.Minute)
		says("its time came", "", "ready planned After")
		take()
		q.AddRateLimited("a", Cause{Source: "Retry"})
		q.Done("a")
		says("failed", "", "delayed retry Retry")
		time.Sleep(time.Second)
		take()
		q.AddRateLimited("a", Cause{Source: "Retry"})
		q.Done("a")
		time.Sleep(time.Second)
		says("failed again, without a token", "", "throttled retry Retry")
	})
}
