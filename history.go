package setpoint

import (
	"container/list"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/queue"
	"github.com/setpoint-dev/setpoint/telemetry/debug"
)

// The bounds of what is kept of reconciles that have ended: the last few of each
// object, for the objects that were reconciled last. With a cause and a write
// each that is about 4 MB.
const (
	historyObjects = 1000
	historyEach    = 8
	historyWrites  = 16      // of one reconcile
	historyText    = 1 << 10 // bytes of an error
)

// history remembers the last reconciles. Nil remembers nothing.
type history struct {
	mu     sync.Mutex
	byKey  map[historyKey]*list.Element // of *chapter
	recent list.List                    // the object reconciled last in front
}

type historyKey struct {
	controller string
	req        Request
}

// chapter is what is remembered of one object, the latest reconcile last.
type chapter struct {
	key        historyKey
	reconciles []debug.Reconcile
}

func newHistory() *history { return &history{byKey: map[historyKey]*list.Element{}} }

func (h *history) add(controller string, req Request, r debug.Reconcile) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := historyKey{controller, req}
	e := h.byKey[key]
	if e == nil {
		e = h.recent.PushFront(&chapter{key: key})
		h.byKey[key] = e
		if h.recent.Len() > historyObjects {
			oldest := h.recent.Back()
			delete(h.byKey, oldest.Value.(*chapter).key)
			h.recent.Remove(oldest)
		}
	}
	h.recent.MoveToFront(e)
	c := e.Value.(*chapter)
	if len(c.reconciles) == historyEach {
		c.reconciles = slices.Delete(c.reconciles, 0, 1)
	}
	c.reconciles = append(c.reconciles, r)
}

// of returns what is remembered of an object, the latest first.
func (h *history) of(controller string, req Request) []debug.Reconcile {
	found := []debug.Reconcile{}
	if h == nil {
		return found
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := h.byKey[historyKey{controller, req}]; e != nil {
		found = append(found, e.Value.(*chapter).reconciles...)
		slices.Reverse(found)
	}
	return found
}

// about returns the reconciles of other objects that an object caused or that
// wrote it, the latest first, at most limit.
func (h *history) about(kind, object string, limit int) []debug.Reconcile {
	found := []debug.Reconcile{}
	if h == nil {
		return found
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for e := h.recent.Front(); e != nil; e = e.Next() {
		for _, r := range slices.Backward(e.Value.(*chapter).reconciles) {
			if (r.Kind != kind || r.Object != object) && concerns(r, kind, object) {
				found = append(found, r)
			}
		}
	}
	slices.SortStableFunc(found, func(a, b debug.Reconcile) int { return b.Began.Compare(a.Began) })
	return found[:min(len(found), limit)]
}

// concerns reports whether an object is among the causes or the writes of a
// reconcile.
func concerns(r debug.Reconcile, kind, object string) bool {
	return slices.ContainsFunc(r.Causes, func(c debug.Cause) bool { return c.Kind == kind && c.Object == object }) ||
		slices.ContainsFunc(r.Writes, func(w debug.Write) bool { return w.Kind == kind && w.Object == object })
}

// remember adds a reconcile that took so long to the history.
func (c *Controller) remember(info *reconcileInfo, item queue.Item[Request], o outcome, took time.Duration, err error) {
	if c.m.history == nil {
		return
	}
	r := debug.Reconcile{
		ID: info.id, Controller: c.name, Kind: kindName(c.kind), Object: item.Key.String(),
		Began: info.since, Waited: info.since.Sub(item.Added).Seconds(), Duration: took.Seconds(),
		Causes: debugCauses(item.Causes), Result: o.result, Text: o.text, After: o.after.Seconds(), TraceID: info.traceID,
	}
	if r.Result == "" {
		r.Result = "skipped"
	} else if err != nil {
		r.Error = short(err)
	}
	info.mu.Lock()
	r.Writes, r.Unlisted = append([]debug.Write{}, info.sent...), info.unlisted
	info.mu.Unlock()
	c.m.history.add(c.name, item.Key, r)
}

// short returns the text of an error, as much of it as is kept.
func short(err error) string {
	text := err.Error()
	if len(text) <= historyText {
		return text
	}
	const more = "…"
	return strings.ToValidUTF8(text[:historyText-len(more)], "") + more
}
