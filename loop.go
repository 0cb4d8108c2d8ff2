package setpoint

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/filter"
	"github.com/setpoint-dev/setpoint/queue"
)

// loopReport is after how many reconciles in a row a key that wakes itself is
// reported as a loop; it is reported again each time that number has doubled.
// From loopSuspect on the fields that change are looked at, which costs decoding.
const (
	loopReport  = 10
	loopSuspect = 5
)

// loops finds keys whose reconciles cause each other: all causes of a reconcile
// are changes of objects that the one before wrote, and it writes one of these
// again. That a write brings one more reconcile, which then has nothing to do, is
// normal and is not counted.
type loops struct {
	mu    sync.Mutex
	byKey map[Request]*loop // of those whose last reconcile wrote something
}

type loop struct {
	wrote  writes   // of the last reconcile
	streak int      // reconciles in a row that woke themselves
	fields []string // that changed when the key was woken last
}

// writes are the objects that a reconcile wrote, by objectID. Those whose names
// the server made are one, by the beginning of the names and anyName.
type writes map[string]bool

// anyName ends the name of objects that are created by generateName. No name
// contains it.
const anyName = "*"

// objectID names an object among those of all kinds.
func objectID(kind, object string) string { return kind + " " + object }

// include reports whether an object is among the written ones.
func (w writes) include(id string) bool {
	if w[id] {
		return true
	}
	for written := range w {
		if begins, ok := strings.CutSuffix(written, anyName); ok && strings.HasPrefix(id, begins) {
			return true
		}
	}
	return false
}

// observeWrite remembers a write of the reconcile that ctx belongs to.
func (c *Cluster) observeWrite(ctx context.Context, r client.Request) {
	info := infoOf(ctx)
	if info == nil || r.Name == "" && r.GenerateName == "" {
		return
	}
	gvk, err := c.mapper.KindFor(r.Resource)
	if err != nil {
		return // then the write fails, too
	}
	name := r.Name
	if name == "" {
		name = r.GenerateName + anyName
	}
	id := objectID(kindName(gvk), Request{c.name, r.Namespace, name}.String())
	info.mu.Lock()
	defer info.mu.Unlock()
	if info.wrote == nil {
		info.wrote = writes{}
	}
	info.wrote[id] = true
}

// begin reports whether a reconcile was caused by nothing but what the one
// before it wrote.
func (l *loops) begin(req Request, causes []queue.Cause) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.byKey[req]
	if last == nil || len(causes) == 0 {
		return false
	}
	for _, cause := range causes {
		if !last.wrote.include(objectID(cause.Kind, cause.Object)) {
			return false
		}
	}
	return true
}

// woken notes the fields that a change of a key that is suspected of waking
// itself brought.
func (l *loops) woken(req Request, change filter.Change) {
	l.mu.Lock()
	last := l.byKey[req]
	suspect := last != nil && last.streak >= loopSuspect
	l.mu.Unlock()
	if !suspect {
		return
	}
	fields := changedFields(change)
	l.mu.Lock()
	defer l.mu.Unlock()
	last.fields = fields
}

// selfWake is how a reconcile woke itself; zero when it did not.
type selfWake struct {
	streak  int      // reconciles in a row that woke themselves
	objects []string // that this one and the one before wrote
	fields  []string // that changed in between, as far as they were looked at
}

// end records what a reconcile wrote.
func (l *loops) end(req Request, wrote writes, selfTriggered bool) selfWake {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.byKey[req]
	if len(wrote) == 0 {
		delete(l.byKey, req)
		return selfWake{}
	}
	next := &loop{wrote: wrote}
	if l.byKey == nil {
		l.byKey = map[Request]*loop{}
	}
	l.byKey[req] = next
	if !selfTriggered || last == nil { // forget came in between
		return selfWake{}
	}
	var found selfWake
	for id := range wrote {
		if last.wrote[id] {
			found.objects = append(found.objects, id)
		}
	}
	if len(found.objects) == 0 {
		return selfWake{}
	}
	slices.Sort(found.objects)
	next.streak = last.streak + 1
	// The next change may have come already, while the reconcile still ran.
	next.fields, found.fields = last.fields, last.fields
	found.streak = next.streak
	return found
}

// forget drops what is known of the keys for which it is asked to.
func (l *loops) forget(which func(Request) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.byKey, func(r Request, _ *loop) bool { return which(r) })
}

// reportLoop warns of a key that wakes itself again and again.
func (c *site) reportLoop(log *slog.Logger, info *reconcileInfo, selfTriggered bool) {
	if selfTriggered {
		c.metrics.SelfTriggered.Inc()
	}
	info.mu.Lock()
	wrote := maps.Clone(info.wrote)
	info.mu.Unlock()
	found := c.loops.end(info.req, wrote, selfTriggered)
	if found.streak >= loopReport && powerOfTwoTimes(found.streak, loopReport) {
		log.Warn("the reconciler wakes itself by its own writes: write only what differs, or filter what you write yourself",
			"times", found.streak, "objects", strings.Join(found.objects, ", "), "fields", strings.Join(found.fields, ", "))
	}
}

// powerOfTwoTimes reports whether n is base, 2·base, 4·base and so on.
func powerOfTwoTimes(n, base int) bool {
	q := n / base
	return n%base == 0 && q&(q-1) == 0
}
