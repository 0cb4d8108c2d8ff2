package queue

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestShutDownWakesAllAndTakesNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Config[string]{})
		q.Add("runs", Fresh, Cause{})
		take(t, q)
		waits := []<-chan string{waitIn(t.Context(), q), waitIn(t.Context(), q), waitIn(t.Context(), q)}
		q.AddAfter("later", time.Minute, Cause{})
		synctest.Wait()
		q.ShutDown()
		q.ShutDown() // harmless
		for _, w := range waits {
			if got := <-w; got != "error: "+ErrShutDown.Error() {
				t.Errorf("a waiting Get returned %q", got)
			}
		}
		q.Add("a", Fresh, Cause{})
		q.AddAfter("b", time.Second, Cause{})
		q.AddRateLimited("c", Cause{})
		q.Forget("runs")
		time.Sleep(time.Hour)
		if _, err := q.Get(t.Context()); !errors.Is(err, ErrShutDown) {
			t.Errorf("Get returned %v, want %v", err, ErrShutDown)
		}
		if s := q.Stats(); q.Len() != 0 || s.Delayed != 0 || s.Running != 1 {
			t.Errorf("after ShutDown the queue holds %+v", s)
		}
		q.Done("runs")
		if s := q.Stats(); s.Running != 0 {
			t.Errorf("%d running after Done", s.Running)
		}
	})
}

func TestDrainWaitsForWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Config[string]{})
		for _, key := range []string{"a", "b", "never handed out"} {
			q.Add(key, Fresh, Cause{})
		}
		take(t, q)
		take(t, q)
		ended := make(chan error, 2)
		for range 2 {
			go func() { ended <- q.Drain(t.Context()) }()
		}
		synctest.Wait()
		if _, err := q.Get(t.Context()); !errors.Is(err, ErrShutDown) {
			t.Errorf("Get while draining returned %v, want %v", err, ErrShutDown)
		}
		q.Add("a", Fresh, Cause{}) // must not keep it from ending
		q.Done("a")
		synctest.Wait()
		if len(ended) > 0 {
			t.Fatal("Drain ended while b runs")
		}
		q.Done("b")
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if err := q.Drain(t.Context()); err != nil {
			t.Errorf("Drain of a drained queue: %v", err)
		}
	})
}

func TestDrainNamesWhatStillRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Config[string]{})
		q.Add("ns/slow", Fresh, Cause{})
		take(t, q)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		err := q.Drain(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "1 keys still running, the longest, ns/slow, for 30s") {
			t.Errorf("Drain returned %v", err)
		}
		q.Done("ns/slow")
	})
}
