package cache

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const namespaceCollection = "namespaces."

func namespace(name, team string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": team}}}
}

// The namespaces of a kind change while it is watched: watches follow, what is left goes, what is entered comes.
func TestSetNamespaces(t *testing.T) {
	for _, before := range [][]string{{"a", "b"}, nil} { // a set, and all
		synctest.Test(t, func(t *testing.T) {
			s := newServer()
			for _, ns := range []string{"a", "b", "c"} {
				s.put(pods, pod(ns, "x", nil)) // 101, 102, 103
			}
			h := start(t, s, Config{Default: Options{Namespaces: before}})
			w, r := h.watchKind(t, podKind)
			synced(t, w)
			_ = r.take()

			must(h.SetNamespaces(podKind, "b", "c"))
			pass(time.Second)
			lines := strings.Join(r.take(), "; ")
			if before == nil {
				same(t, "c was there before", "deleted a/x@101", lines)
			} else {
				same(t, "changes", "deleted a/x@101; added c/x@103", lines)
			}
			same(t, "list", []string{"b/x", "c/x"}, names(t, h, podKind, ListOptions{}))
			if err := h.Get(t.Context(), podKind, key("a", "x"), &corev1.Pod{}); !errors.Is(err, ErrNotCached) {
				t.Errorf("Get in a namespace that was left: %v", err)
			}
			if h.Covers(podKind, "a") || !h.Covers(podKind, "c") {
				t.Error("Covers does not follow")
			}
			same(t, "watches", "b c", strings.Join(h.followed(podKind), " "))

			s.put(pods, pod("a", "y", nil))
			s.put(pods, pod("c", "y", nil))
			synctest.Wait()
			same(t, "changes", []string{"added c/y@105"}, r.take())

			must(h.SetNamespaces(podKind))
			pass(time.Second)
			same(t, "changes", 3, len(r.take()))
			same(t, "list", 0, len(names(t, h, podKind, ListOptions{})))
			if objects, bytes := mustStore(h, podKind).size(); objects != 0 || bytes != 0 {
				t.Errorf("%d objects, %d bytes are left", objects, bytes)
			}
		})
	}
}

// followed returns the namespaces of the kind's scopes.
func (h *harness) followed(gvk schema.GroupVersionKind) (names []string) {
	st := mustStore(h, gvk)
	st.mu.RLock()
	defer st.mu.RUnlock()
	for _, sc := range st.scopes {
		names = append(names, sc.namespace)
	}
	return names
}

func mustStore(h *harness, gvk schema.GroupVersionKind) *store {
	st, err := h.lookup(gvk)
	must(err)
	return st
}

// Reads of a namespace that was just entered, and lists over all, wait for its listing; others do not.
func TestReadsWaitForEnteredNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.put(pods, pod("a", "x", nil))
		s.put(pods, pod("b", "x", nil))
		h := follow(t, s, Config{Default: Options{Namespaces: []string{"a"}}}, podKind)
		s.setFault(func(*http.Request) *http.Response { return statusResponse(apierrors.NewTooManyRequests("busy", 3)) })
		must(h.SetNamespaces(podKind, "a", "b"))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		same(t, "elsewhere", []string{"a/x"}, names(t, h, podKind, ListOptions{Namespace: "a"}))
		if err := h.Get(ctx, podKind, key("b", "x"), &corev1.Pod{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Get before the listing: %v", err)
		}
		s.setFault(nil)
		same(t, "all", []string{"a/x", "b/x"}, names(t, h, podKind, ListOptions{}))
		must(h.Get(t.Context(), podKind, key("b", "x"), &corev1.Pod{}))
	})
}

// Namespaces that are selected by label are followed as they come, change and go; the watch of namespaces ends
// with the last user of the kind.
func TestNamespaceSelector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.put(namespaceCollection, namespace("a", "red"))
		s.put(namespaceCollection, namespace("b", "blue"))
		for _, ns := range []string{"a", "b", "c"} {
			s.put(pods, pod(ns, "x", nil)) // 103, 104, 105
		}
		h := start(t, s, Config{Kinds: map[schema.GroupKind]Options{podKind.GroupKind(): {NamespaceSelector: mustSelector("team=red")}}})
		w, r := h.watchKind(t, podKind)
		synced(t, w)
		same(t, "at first", []string{"initial a/x@103"}, r.take())

		s.put(namespaceCollection, namespace("c", "red"))
		pass(time.Second)
		same(t, "a namespace came", []string{"added c/x@105"}, r.take())
		s.put(namespaceCollection, namespace("b", "red"))
		s.put(namespaceCollection, namespace("a", "blue"))
		pass(time.Second)
		same(t, "labels changed", map[string]bool{"added b/x@104": true, "deleted a/x@103": true}, setOf(r.take()))
		s.delete(namespaceCollection, "c")
		pass(time.Second)
		same(t, "a namespace went", []string{"deleted c/x@105"}, r.take())
		same(t, "list", []string{"b/x"}, names(t, h, podKind, ListOptions{}))

		if err := h.SetNamespaces(podKind, "a"); err == nil {
			t.Error("the namespaces were set although they are selected by label")
		}
		w.Close()
		synctest.Wait()
		if h.Covers(namespaceKind, "") {
			t.Error("namespaces are watched without need")
		}
	})
}

func setOf(lines []string) map[string]bool {
	set := map[string]bool{}
	for _, l := range lines {
		set[l] = true
	}
	return set
}

// Without a namespace that matches, or that may be read, nothing is taken for the truth that is not known.
func TestNamespaceSelectorWithoutMatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.put(pods, pod("a", "x", nil))
		s.setFault(forbid)
		h := start(t, s, Config{Kinds: map[schema.GroupKind]Options{podKind.GroupKind(): {NamespaceSelector: mustSelector("team=red")}}})
		w, r := h.watchKind(t, podKind)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := h.Get(ctx, podKind, key("a", "x"), &corev1.Pod{}); !errors.Is(err, context.DeadlineExceeded) || !apierrors.IsForbidden(err) {
			t.Errorf("Get before the namespaces are known: %v", err)
		}
		s.setFault(nil)
		pass(time.Minute)
		synced(t, w)
		same(t, "changes", 0, len(r.take()))
		if err := h.Get(t.Context(), podKind, key("a", "x"), &corev1.Pod{}); !errors.Is(err, ErrNotCached) {
			t.Errorf("Get outside: %v", err)
		}
	})
}

// What cannot be listed in one namespace keeps nobody from reading another.
func TestForbiddenNamespaceIsItsOwnProblem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.put(pods, pod("a", "x", nil)) // 101
		s.put(pods, pod("b", "x", nil))
		s.setFault(func(r *http.Request) *http.Response {
			if strings.Contains(r.URL.Path, "/namespaces/b/") {
				return forbid(r)
			}
			return nil
		})
		h := start(t, s, Config{Default: Options{Namespaces: []string{"a", "b"}}})
		_, err := h.Watch(podKind, nil)
		must(err)
		began := time.Now()
		pass(time.Minute)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for what, c := range map[string]struct {
			a, b func() error
		}{
			"get": {
				func() error { return h.Get(ended, podKind, key("a", "x"), &corev1.Pod{}) },
				func() error { return h.Get(ended, podKind, key("b", "x"), &corev1.Pod{}) },
			},
			"list": {
				func() error { return h.List(ended, podKind, ListOptions{Namespace: "a"}, &corev1.PodList{}) },
				func() error { return h.List(ended, podKind, ListOptions{}, &corev1.PodList{}) },
			},
			"revision": {
				func() error { return h.WaitRevision(ended, podKind, "a", "101") },
				func() error { return h.WaitRevision(ended, podKind, "", "101") },
			},
			"end": {
				func() error { return h.WaitGone(ended, podKind, key("a", "y"), "uid") },
				func() error { return h.WaitGone(ended, podKind, key("b", "y"), "uid") },
			},
		} {
			if err := c.a(); err != nil {
				t.Errorf("%s in a: %v", what, err)
			}
			if err := c.b(); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "forbidden") {
				t.Errorf("%s in b: %v", what, err)
			}
		}
		_, listing := h.Listing(podKind, "a")
		same(t, "a is being listed", false, listing)
		for _, ns := range []string{"b", ""} {
			since, listing := h.Listing(podKind, ns)
			same(t, "it is being listed", true, listing)
			same(t, "since", began, since)
		}
		s.setFault(nil)
		pass(5 * time.Minute)
		_, listing = h.Listing(podKind, "")
		same(t, "allowed, it is still being listed", false, listing)
	})
}
