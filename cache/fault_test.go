package cache

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Deletions and changes during an outage that outlasts the server's history come out of the next listing.
func TestExpiredRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		for _, name := range []string{"changed", "gone", "same"} {
			s.put(pods, pod("a", name, nil))
		}
		h := start(t, s, Config{})
		w, changes := h.watchKind(t, podKind)
		synced(t, w)
		changes.take()
		same(t, "requests", 1, len(s.asked()))

		s.drop(nil)
		s.put(pods, pod("a", "changed", nil)) // 104
		s.delete(pods, "a/gone")
		s.put(pods, pod("a", "new", nil)) // 106
		s.compact()
		pass(5 * time.Second)
		same(t, "changes", []string{"deleted a/gone@102", "modified a/changed@104", "added a/new@106"}, changes.take())
		same(t, "requests: a watch that has expired, a listing that becomes the watch", 2, len(s.asked()))
		if err := w.Err(); err != nil {
			t.Errorf("healthy again, but: %v", err)
		}

		// The same as an event of an open watch.
		s.mu.Lock()
		status := apierrors.NewResourceExpired("compacted").ErrStatus
		s.streams[0].frame("ERROR", &status)
		s.mu.Unlock()
		synctest.Wait()
		same(t, "nothing changed", 0, len(changes.take()))
		same(t, "listed anew at once", 1, len(s.asked()))
	})
}

// 429 is answered by waiting as long as the server says, at least.
func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.setFault(func(*http.Request) *http.Response {
			return statusResponse(apierrors.NewTooManyRequests("busy", 20))
		})
		h := start(t, s, Config{})
		w, err := h.Watch(podKind, nil)
		if err != nil {
			t.Fatal(err)
		}
		pass(19 * time.Second)
		same(t, "requests before the time", 1, len(s.asked()))
		s.setFault(nil)
		pass(2 * time.Second)
		synced(t, w)
	})
}

// Failures are tried again after 0.8 s and more, up to 30 s, with jitter; a watch that lasted starts that anew.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		var at []time.Duration
		began := time.Now()
		s.setFault(func(r *http.Request) *http.Response {
			at = append(at, time.Since(began))
			return forbid(r)
		})
		h := start(t, s, Config{})
		w, err := h.Watch(podKind, nil)
		if err != nil {
			t.Fatal(err)
		}
		pass(10 * time.Minute)
		base := firstBackoff
		for i := 1; i < len(at); i++ {
			if wait := at[i] - at[i-1]; wait < base || wait > 2*base {
				t.Errorf("try %d came after %v, not between %v and %v", i, wait, base, 2*base)
			}
			base = min(2*base, lastBackoff)
		}
		s.setFault(nil)
		<-w.Synced()
		pass(2 * healthyAfter)
		s.asked()
		s.drop(io.ErrUnexpectedEOF)
		pass(2 * firstBackoff)
		same(t, "requests after a long healthy watch", 1, len(s.asked()))
	})
}

// A connection on which the server never says anything again is given up.
func TestHalfOpenWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.put(pods, pod("a", "x", nil))
		h := start(t, s, Config{})
		w, changes := h.watchKind(t, podKind)
		synced(t, w)
		for range 5 { // bookmarks keep it alive
			pass(silenceBound * 9 / 10)
			s.bookmark()
		}
		synctest.Wait()
		same(t, "requests while there are bookmarks, but for the one timeout that the watch asked for", true, len(s.asked()) <= 2)
		changes.take()
		s.mute()
		s.put(pods, pod("a", "x", nil))
		pass(silenceBound - time.Second)
		same(t, "changes before the bound", 0, len(changes.take()))
		pass(10 * time.Second)
		same(t, "changes after it", []string{"modified a/x@102"}, changes.take())
	})
}

// A server that accepts the request but never answers it is given up, too.
func TestNoResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.setFault(func(r *http.Request) *http.Response {
			<-r.Context().Done()
			return nil
		})
		h := start(t, s, Config{})
		w, err := h.Watch(podKind, nil)
		if err != nil {
			t.Fatal(err)
		}
		pass(headerBound + time.Second/2)
		if err := w.Err(); err == nil || !strings.Contains(err.Error(), "no response within 30s") {
			t.Errorf("error: %v", err)
		}
		s.setFault(nil)
		<-w.Synced()
	})
}

// A listing that stops in the middle of its body is given up.
func TestListingStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.noStreaming = "invalid"
		s.setFault(func(r *http.Request) *http.Response {
			if r.URL.Query().Has("watch") {
				return nil
			}
			b := newBody(r.Context())
			b.write([]byte("k8s"))
			return okResponse(format{proto: true}, b)
		})
		h := start(t, s, Config{})
		w, err := h.Watch(podKind, nil)
		if err != nil {
			t.Fatal(err)
		}
		pass(stallBound + time.Second/2)
		var silence *silenceError
		if err := w.Err(); !errors.As(err, &silence) {
			t.Errorf("error: %v", err)
		}
		s.setFault(nil)
		<-w.Synced()
	})
}

// Listings come in pages; when the revision of the first page expires on the way, all come at once.
func TestPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.noStreaming = "invalid"
		for i := range 3*pageSize - 10 {
			s.put(widgets, widget("a", string(rune('a'+i%26))+string(rune('a'+i/26%26))+string(rune('a'+i/676)), nil))
		}
		h := follow(t, s, Config{}, widgetKind)
		same(t, "objects", 3*pageSize-10, len(names(t, h, widgetKind, ListOptions{})))
		same(t, "requests: WatchList, three pages, watch", 5, len(s.asked()))

		s.setFault(func(r *http.Request) *http.Response {
			if strings.HasPrefix(r.URL.Query().Get("continue"), "a/") {
				return statusResponse(apierrors.NewResourceExpired("the continue token is too old"))
			}
			return nil
		})
		s.compact()
		s.drop(nil)
		s.delete(widgets, "a/aaa")
		s.compact()
		pass(10 * time.Second)
		same(t, "objects", 3*pageSize-11, len(names(t, h, widgetKind, ListOptions{})))
		requests := s.asked()
		same(t, "requests: watch, page, page, all, watch", 5, len(requests))
		same(t, "the last listing", "LIST /apis/example.com/v1/widgets?", requests[3])
	})
}

// After a fail-over to a server that is behind, its older listing is refused. If the older state lasts, it is
// the truth.
func TestStaleServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.put(pods, pod("a", "x", nil))
		s.put(pods, pod("a", "y", nil))
		h := start(t, s, Config{})
		w, changes := h.watchKind(t, podKind)
		synced(t, w)
		changes.take()
		behind := func() { // forget y
			s.mu.Lock()
			delete(s.objects[pods], "a/y")
			s.revision, s.floor, s.history = 101, 1<<40, nil
			s.mu.Unlock()
		}
		behind()
		s.drop(nil)
		pass(time.Minute)
		same(t, "changes from a server that is behind", 0, len(changes.take()))
		if err := w.Err(); err == nil || !strings.Contains(err.Error(), "it is behind") {
			t.Errorf("error: %v", err)
		}
		same(t, "what readers see", []string{"a/x", "a/y"}, names(t, h, podKind, ListOptions{}))

		// Restored from a backup.
		pass(staleBound + time.Minute)
		same(t, "changes from a restored server", []string{"deleted a/y@102"}, changes.take())
		s.mu.Lock()
		s.floor = 0
		s.mu.Unlock()
		s.put(pods, pod("a", "x", nil))
		pass(time.Minute)
		same(t, "changes after", []string{"modified a/x@102"}, changes.take())
	})
}

// A server that tells again what is known does not turn the cache back; one that says of a deletion only what
// the object was before is understood.
func TestOldEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		was := s.put(pods, pod("a", "x", nil))
		now := s.put(pods, pod("a", "x", map[string]string{"app": "x"})) // 102
		h := start(t, s, Config{})
		w, changes := h.watchKind(t, podKind)
		synced(t, w)
		changes.take()
		send := func(typ string, o testObject) {
			s.mu.Lock()
			s.streams[0].frame(typ, o)
			s.mu.Unlock()
			synctest.Wait()
		}
		send("MODIFIED", was)
		send("ADDED", now)
		same(t, "changes", 0, len(changes.take()))
		seen := func() {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := h.WaitRevision(ctx, podKind, "a", "102"); err != nil {
				t.Error(err)
			}
		}
		seen()
		gone := waiting(t.Context(), func(ctx context.Context) error {
			return h.WaitGone(ctx, podKind, key("a", "x"), now.GetUID())
		})
		if returned, _ := gone(); returned {
			t.Error("gone while it is there")
		}
		send("DELETED", was)
		if returned, err := gone(); !returned || err != nil {
			t.Errorf("returned %v, %v after the deletion", returned, err)
		}
		same(t, "changes", []string{"deleted a/x@102"}, changes.take())
		seen()
	})
}

// A kind that is not installed yet is waited for, and named.
func TestKindInstalledLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.put(widgets, widget("a", "x", nil))
		h := prepare(t, s, Config{})
		h.mapper.setAbsent(widgetKind.GroupKind(), true)
		h.run(t)
		w, changes := h.watchKind(t, widgetKind)
		pass(time.Minute)
		if err := w.Err(); err == nil || !strings.Contains(err.Error(), "Widget.example.com") {
			t.Errorf("error: %v", err)
		}
		if h.mapper.resets == 0 {
			t.Error("kinds are not discovered anew")
		}
		h.mapper.setAbsent(widgetKind.GroupKind(), false)
		<-w.Synced()
		same(t, "changes", []string{"initial a/x@101"}, changes.take())
		if err := w.Err(); err != nil {
			t.Errorf("error: %v", err)
		}
	})
}

// What the server does wrong is counted by reason.
func TestFailureMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.setFault(forbid)
		h := start(t, s, Config{Metrics: prometheus.NewPedanticRegistry()})
		if _, err := h.Watch(podKind, nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		same(t, "forbidden", 1.0, testutil.ToFloat64(h.metrics.failures.WithLabelValues("Pod", string(metav1.StatusReasonForbidden))))
		same(t, "listings", 0.0, testutil.ToFloat64(h.metrics.listings.WithLabelValues("Pod")))
		s.setFault(nil)
		pass(time.Minute)
		same(t, "listings", 1.0, testutil.ToFloat64(h.metrics.listings.WithLabelValues("Pod")))
	})
}
