package cache

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// synced fails the test unless the watch has synced by itself.
func synced(t *testing.T, w *Watch) {
	t.Helper()
	synctest.Wait()
	select {
	case <-w.Synced():
	default:
		t.Fatalf("not synced: %v", w.Err())
	}
}

func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Every server talks its own dialect; the cache shows the same.
func TestListsAndWatches(t *testing.T) {
	for name, dialect := range map[string]struct {
		kind       schema.GroupVersionKind
		collection string
		prepare    func(*server)
	}{
		"protobuf, WatchList":        {podKind, pods, func(*server) {}},
		"JSON, WatchList":            {widgetKind, widgets, func(*server) {}},
		"built-in kind in JSON":      {podKind, pods, func(s *server) { s.jsonOnly = true }},
		"WatchList refused":          {podKind, pods, func(s *server) { s.noStreaming = "invalid" }},
		"WatchList never ends":       {podKind, pods, func(s *server) { s.noStreaming = "silent" }},
		"JSON, WatchList never ends": {widgetKind, widgets, func(s *server) { s.noStreaming = "silent" }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				dialect.prepare(s)
				make := func(namespace, name string) testObject {
					if dialect.collection == pods {
						return pod(namespace, name, map[string]string{"app": name})
					}
					return widget(namespace, name, map[string]string{"app": name})
				}
				s.put(dialect.collection, make("a", "x"))
				s.put(dialect.collection, make("b", "y"))
				h := start(t, s, Config{})
				w, changes := h.watchKind(t, dialect.kind)
				<-w.Synced()
				same(t, "listing", []string{"initial a/x@101", "initial b/y@102"}, changes.take())
				if err := w.Err(); err != nil {
					t.Errorf("healthy, but: %v", err)
				}

				s.put(dialect.collection, make("a", "x"))
				s.put(dialect.collection, make("c", "z"))
				s.delete(dialect.collection, "b/y")
				synctest.Wait()
				same(t, "changes", []string{"modified a/x@103", "added c/z@104", "deleted b/y@102"}, changes.take())

				s.drop(io.ErrUnexpectedEOF)
				s.put(dialect.collection, make("d", "w"))
				synctest.Wait()
				if err := w.Err(); !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("after a dropped watch: %v", err)
				}
				s.asked()
				if err := h.WaitRevision(t.Context(), dialect.kind, "", "106"); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				same(t, "changes after resuming", []string{"added d/w@106"}, changes.take())
				same(t, "requests to resume", 1, len(s.asked()))

				var u unstructured.Unstructured
				if err := h.Get(t.Context(), dialect.kind, key("a", "x"), &u); err != nil {
					t.Fatal(err)
				}
				same(t, "kind", dialect.kind, u.GroupVersionKind())
				same(t, "labels", map[string]string{"app": "x"}, u.GetLabels())
				same(t, "managedFields", 0, len(u.GetManagedFields()))
				var m metav1.PartialObjectMetadata
				if err := h.Get(t.Context(), dialect.kind, key("a", "x"), &m); err != nil {
					t.Fatal(err)
				}
				same(t, "metadata kind", dialect.kind, m.GroupVersionKind())
				same(t, "metadata", "103", m.ResourceVersion)
				if dialect.kind == podKind {
					var p corev1.Pod
					if err := h.Get(t.Context(), dialect.kind, key("a", "x"), &p); err != nil {
						t.Fatal(err)
					}
					same(t, "typed", "node-x", p.Spec.NodeName)
				}
			})
		})
	}
}
