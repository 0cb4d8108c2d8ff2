package store

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
)

func pod(name string) *example.Pod {
	return &example.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
}

func podKey(p *example.Pod) string { return "/pods/" + p.Namespace + "/" + p.Name }

func (f *fixture) create(t testing.TB, p *example.Pod, ttl uint64) *example.Pod {
	t.Helper()
	out := &example.Pod{}
	if err := f.Create(t.Context(), podKey(p), p, out, ttl); err != nil {
		t.Fatal(err)
	}
	return out
}

// label updates the pod's only label.
func (f *fixture) label(t testing.TB, p *example.Pod, value string, ttl *uint64) *example.Pod {
	t.Helper()
	out := &example.Pod{}
	err := f.GuaranteedUpdate(t.Context(), podKey(p), out, false, nil, func(obj runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
		obj.(*example.Pod).Labels = map[string]string{"v": value}
		return obj, ttl, nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (f *fixture) delete(t testing.TB, p *example.Pod) {
	t.Helper()
	err := f.Delete(t.Context(), podKey(p), &example.Pod{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) watch(ctx context.Context, t testing.TB, resourceVersion string, bookmarks bool) watch.Interface {
	t.Helper()
	predicate := storage.SelectionPredicate{Label: labels.Everything(), Field: fields.Everything(), AllowWatchBookmarks: bookmarks}
	w, err := f.Watch(ctx, "/pods/ns", storage.ListOptions{ResourceVersion: resourceVersion, Recursive: true, Predicate: predicate})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// next returns the next event as "TYPE name@resourceVersion"; an error is "ERROR reason"; the end is "".
func next(w watch.Interface) string {
	e, ok := <-w.ResultChan()
	if !ok {
		return ""
	}
	if s, ok := e.Object.(*metav1.Status); ok {
		return fmt.Sprintf("%s %s", e.Type, s.Reason)
	}
	p := podOf(e)
	return fmt.Sprintf("%s %s@%s", e.Type, p.Name, p.ResourceVersion)
}

// podOf returns the pod of an event, which can be shared with other watches; nil when it is something else.
func podOf(e watch.Event) *example.Pod {
	if c, ok := e.Object.(runtime.CacheableObject); ok {
		e.Object = c.GetObject()
	}
	p, _ := e.Object.(*example.Pod)
	return p
}

func expect(t testing.TB, w watch.Interface, want ...string) {
	t.Helper()
	for _, want := range want {
		if got := next(w); got != want {
			t.Fatalf("got event %q, want %q", got, want)
		}
	}
}

func TestBookmarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute+30*time.Second)
		defer cancel()
		start := time.Now()
		w := f.watch(ctx, t, "", true)
		other := pod("other")
		other.Namespace = "elsewhere"
		f.create(t, other, 0)
		expect(t, w, "BOOKMARK @2") // nothing for this watch happened, but it has seen revision 2
		if d := time.Since(start); d != time.Minute {
			t.Errorf("first bookmark after %v, want 1m", d)
		}
		f.create(t, pod("a"), 0)
		expect(t, w, "ADDED a@3", "BOOKMARK @3", "BOOKMARK @3")
		if d := time.Since(start); d != 2*time.Minute+28*time.Second {
			t.Errorf("last bookmark after %v, want 2 s before the deadline of 2m30s", d)
		}
		expect(t, w, "")
	})
}

func TestRequestWatchProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		w, err := f.Watch(t.Context(), "/pods/", storage.ListOptions{Recursive: true, ProgressNotify: true, Predicate: storage.Everything})
		if err != nil {
			t.Fatal(err)
		}
		f.increaseRevision(t.Context(), t)
		if err := f.RequestWatchProgress(t.Context()); err != nil {
			t.Fatal(err)
		}
		expect(t, w, "BOOKMARK @2")
	})
}

// TestQuietWatchOutlivesHistory: others may change more than the history holds.
func TestQuietWatchOutlivesHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{History: 100})
		w := f.watch(t.Context(), t, "1", false)
		for range 1000 {
			f.increaseRevision(t.Context(), t)
		}
		f.create(t, pod("a"), 0)
		expect(t, w, "ADDED a@1002")
	})
}

// TestSlowWatchIsToldThatItLost: a reader that stays away for longer than the history gets what was sent before, then 410.
func TestSlowWatchIsToldThatItLost(t *testing.T) {
	for name, c := range map[string]Config{"changes": {History: 300}, "bytes": {HistoryBytes: 40_000}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, c)
				w := f.watch(t.Context(), t, "1", false)
				f.create(t, pod("a"), 0)
				for i := range 1000 {
					f.label(t, pod("a"), fmt.Sprint(i), nil)
				}
				synctest.Wait()
				expect(t, w, "ADDED a@2")
				revision, got := 3, ""
				for ; ; revision++ {
					if got = next(w); got != fmt.Sprintf("MODIFIED a@%d", revision) {
						break
					}
				}
				if got != "ERROR Expired" || revision < watchBuffer || revision > watchBuffer+2*replayBatch {
					t.Errorf("got %q after revision %d, want ERROR Expired after a buffer and a batch", got, revision-1)
				}
				expect(t, w, "")
			})
		})
	}
}

// TestReplayInBatches: all changes arrive, once and in order, when there are more than a batch.
func TestReplayInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		f.create(t, pod("a"), 0)
		for i := range 5 * replayBatch {
			f.label(t, pod("a"), fmt.Sprint(i), nil)
			f.increaseRevision(t.Context(), t)
		}
		w := f.watch(t.Context(), t, "1", false)
		expect(t, w, "ADDED a@2")
		for i := range 5 * replayBatch {
			expect(t, w, fmt.Sprintf("MODIFIED a@%d", 3+2*i))
		}
	})
}

func TestStopEndsAllWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		for i := range 100 {
			f.create(t, pod(fmt.Sprintf("pod-%d", i)), 0)
		}
		idle := f.watch(t.Context(), t, fmt.Sprint(f.store.Revision()), true)
		initial := f.watch(t.Context(), t, "0", false) // held up: nobody reads
		replaying := f.watch(t.Context(), t, "1", false)
		synctest.Wait()
		f.store.Stop()
		expect(t, idle, "")
		for _, w := range []watch.Interface{initial, replaying} {
			for next(w) != "" {
			}
		}
		if _, err := f.Watch(t.Context(), "/pods/", storage.ListOptions{Recursive: true}); err == nil {
			t.Error("Watch after Stop did not fail")
		}
		if f.ReadinessCheck() == nil {
			t.Error("ready after Stop")
		}
		if err := f.Get(t.Context(), "/pods/ns/pod-7", storage.GetOptions{}, &example.Pod{}); err != nil {
			t.Errorf("Get after Stop: %v", err)
		}
	})
}

func TestDestroyEndsOwnWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		other, destroy := f.open(t, f.transformer)
		mine := f.watch(t.Context(), t, "", false)
		theirs, err := other.Watch(t.Context(), "/pods/ns", storage.ListOptions{Recursive: true, Predicate: storage.Everything})
		if err != nil {
			t.Fatal(err)
		}
		destroy()
		expect(t, theirs, "")
		f.create(t, pod("a"), 0)
		expect(t, mine, "ADDED a@2")
		if _, err := other.Watch(t.Context(), "/pods/ns", storage.ListOptions{Recursive: true}); err == nil {
			t.Error("Watch after destroy did not fail")
		}
	})
}

// TestWatchSeesWritesOfOthers: several interfaces of one prefix, as two versions of a custom resource, are one collection.
func TestWatchSeesWritesOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		other, _ := f.open(t, f.transformer)
		w := f.watch(t.Context(), t, "", false)
		if err := other.Create(t.Context(), "/pods/ns/a", pod("a"), nil, 0); err != nil {
			t.Fatal(err)
		}
		expect(t, w, "ADDED a@2")
	})
}

func TestWatchFromTheFuture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		w := f.watch(t.Context(), t, "3", true)
		time.Sleep(5*time.Minute + 30*time.Second) // no bookmarks: there is no progress to tell of
		for i := range 3 {
			f.create(t, pod(fmt.Sprint(i)), 0) // revisions 2, 3, 4
		}
		expect(t, w, "ADDED 2@4", "BOOKMARK @4")

		yes := true
		_, err := f.Watch(t.Context(), "/pods/ns", storage.ListOptions{ResourceVersion: "9", Recursive: true, SendInitialEvents: &yes})
		if !storage.IsTooLargeResourceVersion(err) {
			t.Errorf("watch with initial events from a future revision: %v, want too large resource version", err)
		}
	})
}

func TestWatchFromCompacted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		for i := range 5 {
			f.create(t, pod(fmt.Sprint(i)), 0)
		}
		if err := f.store.Compact(4); err != nil {
			t.Fatal(err)
		}
		expect(t, f.watch(t.Context(), t, "3", false), "ERROR Expired", "")
		expect(t, f.watch(t.Context(), t, "4", false), "ADDED 3@5", "ADDED 4@6")
		err := f.GetList(t.Context(), "/pods/", storage.ListOptions{
			ResourceVersion: "3", ResourceVersionMatch: metav1.ResourceVersionMatchExact, Recursive: true, Predicate: storage.Everything,
		}, &example.PodList{})
		if !apierrors.IsResourceExpired(err) {
			t.Errorf("list at a compacted revision: %v, want expired", err)
		}
	})
}

// TestWatchOfOneObject: an exact key is not a prefix.
func TestWatchOfOneObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		f.create(t, pod("ab"), 0)
		w, err := f.Watch(t.Context(), "/pods/ns/a", storage.ListOptions{ResourceVersion: "0", Predicate: storage.Everything})
		if err != nil {
			t.Fatal(err)
		}
		f.create(t, pod("abc"), 0)
		f.create(t, pod("a"), 0)
		f.delete(t, pod("ab"))
		f.delete(t, pod("a"))
		expect(t, w, "ADDED a@4", "DELETED a@6")
	})
}

func TestInterfaceReportsAllMistakes(t *testing.T) {
	_, _, err := New(Config{}).Interface(Resource{Prefix: "pods"})
	if err == nil || !strings.Contains(err.Error(), "Codec") || !strings.Contains(err.Error(), `"pods"`) {
		t.Errorf("got %v, want an error about Codec and prefix", err)
	}
}
