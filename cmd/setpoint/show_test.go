package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/filter"
)

// child returns an object that another one controls.
func child(t *testing.T, kind, name, owner, rest string) *unstructured.Unstructured {
	t.Helper()
	return object(t, fmt.Sprintf("apiVersion: apps/v1\nkind: %s\nmetadata: {name: %s, namespace: ns, uid: %s, ownerReferences: [{uid: %s, controller: true}]}\n%s",
		kind, name, name, owner, rest))
}

// seen is the change that brings an object.
func seen(o *unstructured.Unstructured) filter.Change {
	return filter.Change{Kind: o.GroupVersionKind(), New: filter.StateOf(o)}
}

func TestTracker(t *testing.T) {
	tr := newTracker()
	root := object(t, "apiVersion: sample.setpoint.dev/v1alpha1\nkind: Foo\nmetadata: {name: foo, namespace: ns, uid: foo}\nspec: {}")
	tr.add(root, true)
	tr.observe(seen(child(t, "Deployment", "dep", "foo", "spec: {replicas: 8}")))
	tr.observe(seen(child(t, "ReplicaSet", "old", "dep", "spec: {replicas: 0}")))
	tr.observe(seen(child(t, "ReplicaSet", "new", "dep", "spec: {replicas: 8}")))
	tr.observe(seen(child(t, "Deployment", "stranger", "other", "spec: {replicas: 8}")))
	const up = "status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}"
	for i := range 8 {
		rest := "status: {phase: Pending}"
		if i < 5 {
			rest = up
		}
		pod := child(t, "Pod", fmt.Sprintf("pod-%d", i), "new", rest)
		pod.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Pod"})
		tr.observe(seen(pod))
	}
	rows, ready := tr.view()
	if ready {
		t.Error("ready before the Foo is")
	}
	want := []string{
		"  … Foo ns/foo             waits for its operator",
		"  …   Deployment ns/dep    0 of 8 available",
		"  …     ReplicaSet ns/new  0 of 8 available",
		"  …       Pod (8 of them)  5 of 8 ready",
	}
	if diff := cmp.Diff(want, table(rows)); diff != "" {
		t.Errorf("wrong picture (-want +got):\n%s", diff)
	}

	tr.observe(seen(object(t, "apiVersion: sample.setpoint.dev/v1alpha1\nkind: Foo\nmetadata: {name: foo, namespace: ns, uid: foo}\nstatus: {conditions: [{type: Ready, status: 'True'}]}")))
	gone := child(t, "Deployment", "dep", "foo", "")
	tr.observe(filter.Change{Kind: gone.GroupVersionKind(), Old: filter.StateOf(gone)})
	rows, ready = tr.view()
	if !ready {
		t.Error("not ready although the Foo is")
	}
	if diff := cmp.Diff([]string{"  ✓ Foo ns/foo  ready"}, table(rows)); diff != "" {
		t.Errorf("wrong picture at the end (-want +got):\n%s", diff)
	}
}

func TestTerminalRedrawsInPlace(t *testing.T) {
	var out bytes.Buffer
	s := &terminal{out: &out, size: func() (int, int) { return 16, 5 }}
	s.step("starting")
	s.step("")
	if got, want := out.String(), "  … starting\n\x1b[1A\x1b[J"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	out.Reset()
	s.show([]row{{0, "Foo", "a", readiness{false, "long enough to be cut"}}, {1, "Pod", "b", readiness{false, ""}}})
	if got, want := out.String(), "  … Foo a    lo…\n  …   Pod b  \n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	out.Reset()
	s.show([]row{{0, "Foo", "a", readiness{false, "long enough to be cut"}}, {1, "Pod", "b", readiness{false, ""}}})
	if got := out.String(); got != "" {
		t.Errorf("drew the same again: %q", got)
	}
	s.show([]row{{0, "Foo", "a", readiness{true, ""}}})
	if got, want := out.String(), "\x1b[2A\x1b[J  ✓ Foo a  \n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	out.Reset()
	s.show(make([]row, 9))
	if lines := strings.Count(out.String(), "\n"); lines != 3 || !strings.Contains(out.String(), "… and 7 line") {
		t.Errorf("got %d lines on a screen of 5:\n%s", lines, out.String())
	}
}

func TestJournalSaysWhatChanged(t *testing.T) {
	var out bytes.Buffer
	s := newScreen(&out)
	s.step("starting")
	s.step("")
	s.show([]row{{0, "Foo", "a", readiness{false, "on its way"}}})
	s.show([]row{{0, "Foo", "a", readiness{false, "on its way"}}, {1, "Pod", "b", readiness{true, "running"}}})
	s.show([]row{{0, "Foo", "a", readiness{true, "ready"}}, {1, "Pod", "b", readiness{true, "running"}}})
	want := "starting\nwaiting Foo a: on its way\nready   Pod b: running\nready   Foo a: ready\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("wrong lines (-want +got):\n%s", diff)
	}
}
