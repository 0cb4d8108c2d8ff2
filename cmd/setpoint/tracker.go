package main

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/filter"
)

// manyChildren is how many children of one kind an object may have before they are shown as one line.
const manyChildren = 6

// tracker follows the objects that were applied and, by their owner references, what became of them. Its methods may be
// called concurrently.
type tracker struct {
	mu       sync.Mutex
	applied  []types.UID // in the order of their application
	reported map[schema.GroupVersionKind]bool
	entries  map[types.UID]entry
	changed  chan struct{} // holds a token when something changed since it was last taken
}

// entry is what is known of one object.
type entry struct {
	uid, owner            types.UID
	kind, namespace, name string
	readiness
	idle bool // asks for nothing, as an old ReplicaSet does
}

func newTracker() *tracker {
	return &tracker{
		reported: map[schema.GroupVersionKind]bool{},
		entries:  map[types.UID]entry{},
		changed:  make(chan struct{}, 1),
	}
}

// add makes an object that was applied a root. reported says that somebody writes the status of objects of its kind.
func (t *tracker) add(o *unstructured.Unstructured, reported bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reported[o.GroupVersionKind()] = reported
	if !slices.Contains(t.applied, o.GetUID()) {
		t.applied = append(t.applied, o.GetUID())
	}
	if _, ok := t.entries[o.GetUID()]; !ok { // what was watched is at least as new
		t.entries[o.GetUID()] = entryOf(o, reported)
	}
	t.wake()
}

// observe takes a change of a watched object in.
func (t *tracker) observe(c filter.Change) {
	object, err := c.Latest().Object()
	o, ok := object.(*unstructured.Unstructured)
	if err != nil || !ok {
		return // what cannot be read is not shown
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.New == nil {
		delete(t.entries, o.GetUID())
	} else {
		t.entries[o.GetUID()] = entryOf(o, t.reported[o.GroupVersionKind()])
	}
	t.wake()
}

func (t *tracker) wake() {
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

func entryOf(o *unstructured.Unstructured, reported bool) entry {
	e := entry{uid: o.GetUID(), kind: o.GetKind(), namespace: o.GetNamespace(), name: o.GetName(), readiness: judge(o, reported)}
	for _, ref := range o.GetOwnerReferences() {
		if ref.Controller != nil && *ref.Controller {
			e.owner = ref.UID
		}
	}
	if want, ok := number(o, "spec", "replicas"); ok && want == 0 {
		e.idle = true
	}
	return e
}

// row is one line of what is shown: an object, or several of one kind.
type row struct {
	depth int
	kind  string
	name  string // with its namespace
	readiness
}

// view returns what there is to see, each object below its owner, and whether all that was applied is ready.
func (t *tracker) view() (rows []row, ready bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	children := map[types.UID][]entry{}
	for _, e := range t.entries {
		if e.owner != "" && !e.idle {
			children[e.owner] = append(children[e.owner], e)
		}
	}
	for _, of := range children {
		slices.SortFunc(of, func(a, b entry) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name)) })
	}
	ready = true
	for _, uid := range t.applied {
		e, ok := t.entries[uid]
		if !ok {
			continue // deleted since
		}
		ready = ready && e.ready
		rows = appendRows(rows, 0, []entry{e}, children)
	}
	return rows, ready
}

// appendRows adds siblings, which are sorted by kind, and all below them.
func appendRows(rows []row, depth int, siblings []entry, children map[types.UID][]entry) []row {
	for start := 0; start < len(siblings); {
		end := start
		for end < len(siblings) && siblings[end].kind == siblings[start].kind {
			end++
		}
		if group := siblings[start:end]; len(group) > manyChildren {
			rows = append(rows, summary(depth, group))
		} else {
			for _, e := range group {
				rows = append(rows, row{depth, e.kind, join(e.namespace, e.name), e.readiness})
				rows = appendRows(rows, depth+1, children[e.uid], children)
			}
		}
		start = end
	}
	return rows
}

// summary is one row for many objects of one kind.
func summary(depth int, group []entry) row {
	up := 0
	for _, e := range group {
		if e.ready {
			up++
		}
	}
	return row{depth, group[0].kind, fmt.Sprintf("(%d of them)", len(group)),
		readiness{up == len(group), fmt.Sprintf("%d of %d ready", up, len(group))}}
}

func join(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}
