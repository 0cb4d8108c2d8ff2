package cache

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"weak"

	"github.com/setpoint-dev/setpoint/filter"
)

// Law: a slow subscriber delays nobody, loses nothing, and what waits for it is merged by object.
func TestSlowSubscriber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.put(pods, pod("a", "kept", nil))
		s.put(pods, pod("a", "gone", nil))
		s.put(pods, pod("a", "reborn", nil))
		h := start(t, s, Config{})
		slow, gate := &recorder{}, make(chan struct{})
		block := false
		w, err := h.Watch(podKind, func(c filter.Change) {
			if block {
				<-gate
			}
			slow.record(c)
		})
		if err != nil {
			t.Fatal(err)
		}
		fastWatch, fast := h.watchKind(t, podKind)
		synced(t, w)
		synced(t, fastWatch)
		slow.take()
		fast.take()

		block = true
		for _, change := range []func(){
			func() { s.put(pods, pod("a", "first", nil)) }, // 104: the slow one hangs in this
			func() { s.put(pods, pod("a", "kept", nil)) },
			func() { s.put(pods, pod("a", "kept", nil)) }, // 106
			func() { s.delete(pods, "a/gone") },
			func() { s.put(pods, pod("a", "brief", nil)) },
			func() { s.delete(pods, "a/brief") },
			func() { s.delete(pods, "a/reborn") },
			func() { s.put(pods, pod("a", "reborn", nil)) },
			func() { s.put(pods, pod("a", "reborn", nil)) }, // 112
		} {
			change()
			synctest.Wait()
		}
		same(t, "the fast one has seen", 9, len(fast.take()))
		same(t, "the slow one has seen", 0, len(slow.take()))

		block = false
		close(gate)
		synctest.Wait()
		same(t, "merged", []string{
			"added a/first@104", "modified a/kept@106", "deleted a/gone@102", "deleted a/reborn@103", "added a/reborn@112",
		}, slow.take())
	})
}

// What waits for a subscriber that hangs is bounded by the objects, however much comes and goes.
func TestPendingIsBounded(t *testing.T) {
	sub := newSubscriber(&form{}, func(filter.Change) {})
	for i := range 10_000 {
		o := &object{key: fmt.Sprint(i)}
		sub.enqueue(nil, o)
		sub.enqueue(o, nil)
	}
	if len(sub.order) > 100 || len(sub.pending) != 0 {
		t.Errorf("%d places and %d changes wait for nothing", len(sub.order), len(sub.pending))
	}
}

// Law: one who joins later gets what is there, then what changes, without a gap.
func TestLateSubscriber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		for i := range 3 {
			s.put(pods, pod("a", fmt.Sprint(i), nil))
		}
		h := start(t, s, Config{})
		first, _ := h.watchKind(t, podKind)
		synced(t, first)

		late, gate, reached := &recorder{}, make(chan struct{}), make(chan struct{})
		w, err := h.Watch(podKind, func(c filter.Change) {
			if len(late.lines) == 0 {
				close(reached)
				<-gate
			}
			late.record(c)
		})
		if err != nil {
			t.Fatal(err)
		}
		<-reached                       // in the middle of its initial changes
		s.put(pods, pod("a", "0", nil)) // 104: shown before
		s.put(pods, pod("a", "1", nil)) // 105: still to be shown
		s.delete(pods, "a/2")           // never to be shown
		s.put(pods, pod("a", "3", nil)) // 107
		synctest.Wait()
		select {
		case <-w.Synced():
			t.Error("synced before the initial changes were delivered")
		default:
		}
		close(gate)
		<-w.Synced()
		synctest.Wait()
		same(t, "late", []string{"initial a/0@101", "initial a/1@105", "modified a/0@104", "added a/3@107"}, late.take())
	})
}

// Watches are counted: the last Close ends the requests and frees the store, and nobody is called any more.
func TestWatchesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.put(pods, pod("a", "x", nil))
		h := start(t, s, Config{})
		w1, r1 := h.watchKind(t, podKind)
		w2, r2 := h.watchKind(t, podKind)
		synced(t, w1)
		synced(t, w2)
		same(t, "requests for two users", 1, len(s.asked()))
		w1.Close()
		w1.Close()
		s.put(pods, pod("a", "y", nil))
		synctest.Wait()
		same(t, "the closed one", []string{"initial a/x@101"}, r1.take())
		same(t, "the open one", []string{"initial a/x@101", "added a/y@102"}, r2.take())
		if !h.Covers(podKind, "a") {
			t.Error("not covered although one user is left")
		}
		w2.Close()
		synctest.Wait()
		if h.Covers(podKind, "a") {
			t.Error("covered without users")
		}
		s.mu.Lock()
		open := s.streams[0].body.ctx.Err() == nil
		s.mu.Unlock()
		if open {
			t.Error("the request goes on without users")
		}
	})
}

// Law 14: Run returns when its context ends, with nothing left behind, also while a subscriber hangs in a call
// until then. The bubble fails the test if a goroutine is left.
func TestStopIsClean(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		for i := range 10 {
			s.put(pods, pod("a", fmt.Sprint(i), nil))
		}
		h := start(t, s, Config{})
		calls := 0
		w, err := h.Watch(podKind, func(filter.Change) { calls++; <-h.ctx.Done() })
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		h.stop()
		same(t, "calls", 1, calls)
		w.Close()
		if _, err := h.Watch(nodeKind, nil); err == nil {
			t.Error("a stopped cache took a watch")
		}
	})
}

// The last one to leave frees the objects, even if it keeps its closed Watch.
func TestLastUserFreesMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.put(pods, pod("a", "x", nil))
		h := start(t, s, Config{})
		w1, _ := h.watchKind(t, podKind)
		w2, _ := h.watchKind(t, podKind)
		synced(t, w1)
		kept := weak.Make(mustStore(h, podKind))
		w1.Close()
		synctest.Wait()
		if runtime.GC(); kept.Value() == nil {
			t.Error("freed although one user is left")
		}
		w2.Close()
		synctest.Wait()
		if runtime.GC(); kept.Value() != nil {
			t.Error("kept without users")
		}
		if err := w2.Err(); err != nil {
			t.Error(err)
		}
		runtime.KeepAlive(w2)
	})
}
