package cache

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// waiting runs a wait and reports later whether, and with what, it has returned.
func waiting(ctx context.Context, wait func(context.Context) error) (returned func() (bool, error)) {
	var err error
	done := make(chan struct{})
	go func() { defer close(done); err = wait(ctx) }()
	return func() (bool, error) {
		synctest.Wait()
		select {
		case <-done:
			return true, err
		default:
			return false, nil
		}
	}
}

func TestWaitRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.put(pods, pod("a", "x", nil)) // 101
		h := follow(t, s, Config{}, podKind)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		revision := func(rv string) func() (bool, error) {
			return waiting(ctx, func(ctx context.Context) error { return h.WaitRevision(ctx, podKind, "a", rv) })
		}
		expect := func(what string, want bool, returned func() (bool, error)) {
			t.Helper()
			if got, err := returned(); got != want || err != nil {
				t.Errorf("%s: returned %v, %v", what, got, err)
			}
		}
		expect("what the listing had", true, revision("101"))
		byEvent, byBookmark := revision("102"), revision("103")
		expect("what is to come", false, byEvent)
		s.put(pods, pod("a", "x", nil))
		expect("an event's revision", true, byEvent)
		expect("a later one", false, byBookmark)
		s.put(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}) // moves the revision, but shows nothing here
		expect("a later one without an event", false, byBookmark)
		s.bookmark()
		expect("a bookmark's revision", true, byBookmark)

		if err := h.WaitRevision(ctx, podKind, "a", "1000"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("never reached: %v", err)
		}
		for _, rv := range []string{"", "0", "x"} {
			if err := h.WaitRevision(t.Context(), podKind, "a", rv); err == nil {
				t.Errorf("revision %q was taken for one", rv)
			}
		}
	})
}

func TestWaitGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		x := s.put(pods, pod("a", "x", nil))
		h := follow(t, s, Config{}, podKind)
		gone := waiting(t.Context(), func(ctx context.Context) error {
			return h.WaitGone(ctx, podKind, key("a", "x"), x.GetUID())
		})
		if returned, _ := gone(); returned {
			t.Error("gone while it is there")
		}
		s.put(pods, pod("a", "x", nil))
		if returned, _ := gone(); returned {
			t.Error("gone by an update")
		}
		// It goes and another takes its name while the watch is broken.
		s.drop(nil)
		s.delete(pods, "a/x")
		s.put(pods, pod("a", "x", nil))
		s.compact()
		pass(time.Minute)
		if returned, err := gone(); !returned || err != nil {
			t.Errorf("returned %v, %v after it was replaced", returned, err)
		}
	})
}

// A kind in several namespaces is one store with one revision per namespace.
func TestSeveralNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.put(pods, pod("a", "x", nil))
		s.put(pods, pod("b", "y", nil))
		s.put(pods, pod("c", "z", nil))
		s.put(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
		h := follow(t, s, Config{Default: Options{Namespaces: []string{"b", "a", "b"}}}, podKind, nodeKind)
		same(t, "requests", 3, len(s.asked()))
		same(t, "all", []string{"a/x", "b/y"}, names(t, h, podKind, ListOptions{}))
		same(t, "one", []string{"b/y"}, names(t, h, podKind, ListOptions{Namespace: "b"}))
		same(t, "cluster-scoped kinds have no namespaces", []string{"n"}, names(t, h, nodeKind, ListOptions{}))

		s.put(pods, pod("b", "w", nil)) // 105: seen by b's watch alone
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := h.WaitRevision(ctx, podKind, "b", "105"); err != nil {
			t.Error(err)
		}
		if err := h.WaitRevision(ctx, podKind, "", "105"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a's watch has not seen it: %v", err)
		}
		s.bookmark()
		if err := h.WaitRevision(t.Context(), podKind, "", "105"); err != nil {
			t.Error(err)
		}
	})
}

func TestMatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := follow(t, newServer(), Config{Kinds: map[schema.GroupKind]Options{podKind.GroupKind(): {
			Namespaces: []string{"a"},
			Labels:     labels.SelectorFromSet(labels.Set{"app": "x"}),
			Fields:     fields.ParseSelectorOrDie("spec.nodeName=node-p,metadata.name!=q"),
		}}}, podKind, widgetKind)
		x := map[string]string{"app": "x"}
		elsewhere := pod("a", "p", x)
		elsewhere.Spec.NodeName = ""
		for name, c := range map[string]struct {
			object        metav1.Object
			matches, sure bool
		}{
			"in scope":                         {pod("a", "p", x), true, true},
			"namespace":                        {pod("b", "p", x), false, true},
			"labels":                           {pod("a", "p", nil), false, true},
			"field":                            {elsewhere, false, true},
			"name excluded":                    {pod("a", "q", x), false, true},
			"metadata of what may be in scope": {meta.AsPartialObjectMetadata(pod("a", "p", x)), true, false},
			"metadata of another name":         {meta.AsPartialObjectMetadata(pod("a", "q", x)), false, true},
			"metadata with other labels":       {meta.AsPartialObjectMetadata(pod("a", "p", nil)), false, true},
			"metadata of another namespace":    {meta.AsPartialObjectMetadata(pod("b", "p", x)), false, true},
		} {
			matches, sure := h.Matches(podKind, c.object)
			same(t, name, [2]bool{c.matches, c.sure}, [2]bool{matches, sure})
		}
		matches, sure := h.Matches(widgetKind, widget("b", "w", nil))
		same(t, "a kind without options", [2]bool{true, true}, [2]bool{matches, sure})
		matches, sure = h.Matches(nodeKind, pod("", "n", nil))
		same(t, "a kind that is not watched", [2]bool{false, true}, [2]bool{matches, sure})
	})
}

// A field that is missing is empty only where it could be a text: the server compares the zero of a number or a truth value.
func TestFieldOf(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	tree := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": int64(3)}}}
	for _, c := range []struct {
		object      metav1.Object
		path, value string
		known       bool
	}{
		{pod("a", "p", nil), "spec.nodeName", "node-p", true},
		{pod("a", "p", nil), "status.phase", "", true},
		{pod("a", "p", nil), "metadata.namespace", "a", true},
		{pod("a", "p", map[string]string{"app": "x"}), "metadata.labels.app", "x", true},
		{pod("a", "p", nil), "metadata.labels.app", "", true},
		{pod("a", "p", nil), "spec.colour", "", false},
		{pod("a", "p", nil), "spec.securityContext.runAsUser", "", false},
		{pod("a", "p", nil), "spec.containers", "", false},
		{node, "spec.unschedulable", "", false},
		{node, "name", "", false},
		{&corev1.Event{}, "source", "", false},
		{tree, "spec.replicas", "3", true},
		{tree, "spec.colour", "", true},
		{tree, "spec", "", false},
		{meta.AsPartialObjectMetadata(pod("a", "p", nil)), "metadata.name", "p", true},
		{meta.AsPartialObjectMetadata(pod("a", "p", nil)), "spec.nodeName", "", false},
	} {
		value, known := fieldOf(c.object, c.path)
		if value != c.value || known != c.known {
			t.Errorf("%s of a %T is %q, known %v; want %q, %v", c.path, c.object, value, known, c.value, c.known)
		}
	}
}

func TestScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		selector := labels.SelectorFromSet(labels.Set{"app": "x"})
		h := follow(t, newServer(), Config{Default: Options{Namespaces: []string{"b", "a"}, Labels: selector}}, podKind, nodeKind)
		limited, _ := h.Scope(podKind)
		same(t, "a kind with namespaces", []string{"a", "b"}, limited.Namespaces)
		same(t, "its labels", "app=x", limited.Labels.String())
		unlimited, _ := h.Scope(nodeKind)
		same(t, "a kind without namespaces", []string{""}, unlimited.Namespaces)
		must(h.SetNamespaces(podKind))
		none, watched := h.Scope(podKind)
		same(t, "an empty set", 0, len(none.Namespaces))
		same(t, "it is watched", true, watched)
		_, watched = h.Scope(widgetKind)
		same(t, "another kind is watched", false, watched)
	})
}
