package setpoint

import (
	"slices"
	"sync"

	"go.opentelemetry.io/otel/trace"

	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/queue"
)

// maxTracedWrites is how many writes are remembered, the last ones, for the changes
// that come of them. Changes arrive within milliseconds of their writes.
const maxTracedWrites = 4096

// tracedWrites knows which span wrote which version of an object.
type tracedWrites struct {
	mu       sync.Mutex
	byObject map[string][]*tracedWrite // by objectID, in the order of their beginning
	ring     []*tracedWrite            // all, the oldest at next once it is full
	next     int
}

// tracedWrite is a write and its span.
type tracedWrite struct {
	object  string // objectID; "" once it is forgotten
	verb    string
	version string // that it led to; "" while it is under way, or when it is not known
	ended   bool
	span    trace.SpanContext
	hops    int
}

func newTracedWrites() tracedWrites { return tracedWrites{byObject: map[string][]*tracedWrite{}} }

// begin remembers a write that is about to be sent.
func (t *tracedWrites) begin(cluster, kind string, r client.Request, span trace.SpanContext, hops int) *tracedWrite {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := &tracedWrite{verb: r.Verb, span: span, hops: hops}
	t.put(w, objectID(kind, Request{cluster, r.Namespace, r.Name}.String()))
	if len(t.ring) < maxTracedWrites {
		t.ring = append(t.ring, w)
		return w
	}
	t.remove(t.ring[t.next])
	t.ring[t.next] = w
	t.next = (t.next + 1) % maxTracedWrites
	return w
}

// end remembers what came of a write. One that failed caused no change.
func (t *tracedWrites) end(w *tracedWrite, kind string, object Request, done client.Written) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.object == "" {
		return
	}
	w.version, w.ended = done.Version, true
	if done.Err != nil {
		t.remove(w)
		return
	}
	if id := objectID(kind, object.String()); id != w.object {
		t.remove(w)
		t.put(w, id)
	}
}

func (t *tracedWrites) put(w *tracedWrite, object string) {
	w.object = object
	t.byObject[object] = append(t.byObject[object], w)
}

func (t *tracedWrites) remove(w *tracedWrite) {
	if w.object == "" {
		return
	}
	left := slices.DeleteFunc(t.byObject[w.object], func(other *tracedWrite) bool { return other == w })
	if t.byObject[w.object] = left; len(left) == 0 {
		delete(t.byObject, w.object)
	}
	w.object = ""
}

// find returns the write that brought a change: the one that led to the change's
// version or, since a change may arrive before the answer to its write, one under
// way that brings such changes. A deletion has a version of its own, which no answer
// tells.
func (t *tracedWrites) find(cause queue.Cause) (tracedWrite, bool) {
	if cause.Object == "" {
		return tracedWrite{}, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var found *tracedWrite
	for _, w := range t.byObject[objectID(cause.Kind, cause.Object)] {
		switch {
		case w.version != "" && w.version == cause.Version:
			return *w, true
		case cause.Verb == "deleted" && w.verb == "delete", !w.ended && brings(w.verb, cause.Verb):
			found = w
		}
	}
	if found == nil {
		return tracedWrite{}, false
	}
	return *found, true
}

// brings reports whether writes of a verb lead to changes of the other.
func brings(verb, change string) bool {
	switch change {
	case "added":
		return verb == "create" || verb == "patch" // an apply may create
	case "deleted":
		return verb != "create"
	}
	return verb != "create"
}
