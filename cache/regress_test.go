package cache

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/setpoint-dev/setpoint/filter"
)

// The cases here are bugs that others had, named after the issue that reported each; docs/regressions.md says whose
// each is.

// An index on a kind that cannot be listed must not block whoever declares it.
func TestBug3422IndexOfForbiddenKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.setFault(forbid)
		h := prepare(t, s, Config{})
		index := func(runtime.Object) []string { return nil }
		if err := h.Index(podKind, "before", index); err != nil {
			t.Error(err)
		}
		h.run(t)
		if err := h.Index(podKind, "running", index); err != nil {
			t.Error(err)
		}
		same(t, "requests", 0, len(s.asked()))
		if _, err := h.Watch(podKind, nil); err != nil {
			t.Fatal(err)
		}
		if err := h.Index(podKind, "late", index); err == nil {
			t.Error("an index was taken although the kind is watched")
		}
	})
}

// A namespace without options of its own is covered by the watch of all; a list that is used twice does not
// accumulate; and reading several namespaces at once is no race.
func TestBug3126SeveralNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.put(pods, pod("a", "x", nil))
		s.put(pods, pod("b", "y", nil))
		h := follow(t, s, Config{}, podKind)
		var list corev1.PodList
		for range 2 {
			if err := h.List(t.Context(), podKind, ListOptions{Namespace: "b"}, &list); err != nil {
				t.Fatal(err)
			}
			same(t, "items", 1, len(list.Items))
		}
		h.stop()

		h = follow(t, s, Config{Default: Options{Namespaces: []string{"a", "b", "c"}}}, podKind)
		var group sync.WaitGroup
		for _, namespace := range []string{"", "a", "b", "c"} {
			group.Go(func() {
				for range 50 {
					var list corev1.PodList
					if err := h.List(t.Context(), podKind, ListOptions{Namespace: namespace}, &list); err != nil {
						t.Error(err)
					}
					s.put(pods, pod(namespace+"a", "z", nil))
				}
			})
		}
		group.Wait()
	})
}

// A user goes, the CRD is deleted and created again, a user comes: changes flow, and only to the new one.
func TestBug2983CRDRecreated(t *testing.T) {
	for _, keep := range []bool{false, true} { // also with a user who stays all the time
		synctest.Test(t, func(t *testing.T) {
			s := newServer()
			s.put(widgets, widget("a", "x", nil))
			h := start(t, s, Config{})
			var stays *recorder
			if keep {
				_, stays = h.watchKind(t, widgetKind)
			}
			w, old := h.watchKind(t, widgetKind)
			synced(t, w)
			w.Close()
			old.take()

			h.mapper.setAbsent(widgetKind.GroupKind(), true)
			s.delete(widgets, "a/x")
			s.setFault(func(r *http.Request) *http.Response {
				return &http.Response{StatusCode: http.StatusNotFound, Body: http.NoBody, Header: http.Header{}}
			})
			s.drop(nil)
			pass(time.Minute)
			h.mapper.setAbsent(widgetKind.GroupKind(), false)
			s.setFault(nil)
			s.put(widgets, widget("a", "x", nil))
			s.compact()

			w, now := h.watchKind(t, widgetKind)
			<-w.Synced()
			pass(time.Minute)
			same(t, "the new one", []string{map[bool]string{false: "initial", true: "added"}[keep] + " a/x@103"}, now.take())
			same(t, "the old one", 0, len(old.take()))
			s.put(widgets, widget("a", "y", nil))
			synctest.Wait()
			same(t, "changes after", []string{"added a/y@104"}, now.take())
			if keep {
				same(t, "the one who stayed", []string{"initial a/x@101", "deleted a/x@101", "added a/x@103", "added a/y@104"}, stays.take())
			}
		})
	}
}

// What is deleted while the watch is down is told with the last state that was seen, never with none.
func TestBug1352DeletedDuringOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.put(pods, pod("a", "x", nil))
		h := start(t, s, Config{})
		var deleted []string
		w, err := h.Watch(podKind, func(c filter.Change) {
			if c.Verb() != filter.Deleted {
				return
			}
			o, err := c.Latest().Object()
			if err != nil {
				t.Error(err)
			}
			deleted = append(deleted, o.(*corev1.Pod).Spec.NodeName)
		})
		if err != nil {
			t.Fatal(err)
		}
		synced(t, w)
		s.drop(nil)
		s.delete(pods, "a/x")
		s.compact()
		pass(time.Minute)
		synctest.Wait()
		same(t, "deleted", []string{"node-x"}, deleted)
	})
}

// Subscribers that use the cache from within a call, also to watch and close, do not deadlock with the start.
func TestBug136509StartUpDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		for _, name := range []string{"x", "y", "z"} {
			s.put(pods, pod("a", name, nil))
		}
		h := start(t, s, Config{})
		var group sync.WaitGroup
		for range 5 {
			group.Go(func() {
				w, err := h.Watch(podKind, func(filter.Change) {
					var list corev1.PodList
					if err := h.List(t.Context(), podKind, ListOptions{}, &list); err != nil || len(list.Items) != 3 {
						t.Errorf("list in a call: %d items, %v", len(list.Items), err)
					}
					inner, err := h.Watch(podKind, func(filter.Change) {})
					if err != nil {
						t.Error(err)
						return
					}
					<-inner.Synced()
					inner.Close()
				})
				if err != nil {
					t.Error(err)
					return
				}
				<-w.Synced()
			})
		}
		group.Wait()
	})
}

// A metadata-only watch says of which kind its objects are, and its changes are nobody else's memory.
func TestBug1650MetadataOnlyKind(t *testing.T) {
	for name, jsonOnly := range map[string]bool{"protobuf": false, "JSON": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				s.jsonOnly = jsonOnly
				s.put(widgets, widget("a", "x", map[string]string{"app": "x"}))
				h := start(t, s, Config{Default: Options{MetadataOnly: true}})
				var w *Watch
				for range 2 {
					var err error
					w, err = h.Watch(widgetKind, func(c filter.Change) {
						if c.Kind != widgetKind {
							t.Errorf("change of kind %v", c.Kind)
						}
						o, err := c.Latest().Object()
						if err != nil {
							t.Error(err)
							return
						}
						m := o.(*metav1.PartialObjectMetadata)
						same(t, "kind", widgetKind, m.GroupVersionKind())
						same(t, "labels", map[string]string{"app": "x"}, m.Labels)
						m.Labels["app"] = "scribbled"
					})
					if err != nil {
						t.Fatal(err)
					}
				}
				synced(t, w)
				s.put(widgets, widget("a", "x", map[string]string{"app": "x"}))
				synctest.Wait()
				for _, r := range s.asked() {
					if strings.Contains(r, "LIST") {
						t.Errorf("request %s", r)
					}
				}
			})
		})
	}
}

// A kind that cannot be listed blocks nobody but those who wait for it, and those no longer than they want.
func TestBugBSyncWithoutBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.put(widgets, widget("a", "x", nil))
		s.setFault(func(r *http.Request) *http.Response {
			if strings.Contains(r.URL.Path, "/pods") {
				return forbid(r)
			}
			return nil
		})
		h := start(t, s, Config{})
		forbidden, err := h.Watch(podKind, nil)
		if err != nil {
			t.Fatal(err)
		}
		allowed, err := h.Watch(widgetKind, nil)
		if err != nil {
			t.Fatal(err)
		}
		synced(t, allowed)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := forbidden.WaitSynced(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "forbidden") {
			t.Errorf("waiting for a forbidden kind: %v", err)
		}
	})
}

// An event without an object, as a proxy or a broken server may send it, crashes nothing and loses nothing: what
// was deleted meanwhile is still told with the last state that was seen.
func TestBug1256NilObject(t *testing.T) {
	for name, gone := range map[string]string{
		"null":       `{"type":"DELETED","object":null}`,
		"left out":   `{"type":"DELETED"}`,
		"empty":      `{"type":"DELETED","object":{}}`,
		"modified":   `{"type":"MODIFIED","object":null}`,
		"no verdict": `{"type":"ERROR","object":null}`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				s.put(widgets, widget("a", "x", nil))
				s.put(widgets, widget("a", "y", nil))
				h := start(t, s, Config{})
				w, changes := h.watchKind(t, widgetKind)
				synced(t, w)
				changes.take()
				s.mu.Lock()
				for _, st := range s.streams {
					st.body.write([]byte(gone + "\n"))
				}
				s.mu.Unlock()
				s.delete(widgets, "a/x")
				pass(time.Minute)
				if got := changes.take(); len(got) != 1 || !strings.HasPrefix(got[0], "deleted a/x@") {
					t.Errorf("changes %q, want the deletion of a/x", got)
				}
				if err := w.Err(); err != nil {
					t.Errorf("the watch did not recover: %v", err)
				}
			})
		})
	}
}

// What is deleted after the listing was read and before the watch begins leaves no phantom.
func TestBug141529DeletedBetweenListAndWatch(t *testing.T) {
	for name, compacted := range map[string]bool{"the watch resumes": false, "the listing is too old": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				s.noStreaming = "invalid"
				s.put(pods, pod("a", "x", nil))
				s.put(pods, pod("a", "y", nil))
				s.setFault(func(r *http.Request) *http.Response {
					if q := r.URL.Query(); q.Get("watch") != "" && q.Get("sendInitialEvents") == "" {
						s.delete(pods, "a/x") // no-op from the second time on
						if compacted {
							compacted = false
							s.compact()
						}
					}
					return nil
				})
				h := start(t, s, Config{})
				w, _ := h.watchKind(t, podKind)
				<-w.Synced()
				pass(time.Minute)
				var list corev1.PodList
				if err := h.List(t.Context(), podKind, ListOptions{}, &list); err != nil {
					t.Fatal(err)
				}
				if len(list.Items) != 1 || list.Items[0].Name != "y" {
					t.Errorf("the cache holds %d Pods, want y alone", len(list.Items))
				}
				var lists int
				for _, r := range s.asked() {
					if strings.HasPrefix(r, "LIST") {
						lists++
					}
				}
				if lists == 0 {
					t.Error("nothing was listed: the case was not met")
				}
			})
		})
	}
}
