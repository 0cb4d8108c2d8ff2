package setpoint

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/setpoint-dev/setpoint/queue"
	"github.com/setpoint-dev/setpoint/telemetry/debug"
)

// debugItems is how many running and waiting objects of a controller the debug
// endpoint shows of each.
const debugItems = 100

// serveOverview answers with the state of the manager.
func (m *Manager) serveOverview(w http.ResponseWriter, req *http.Request) {
	overview := m.overview()
	if wantsPage(req) {
		m.writePage(w, overview)
		return
	}
	m.writeJSON(w, overview)
}

func (m *Manager) writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(v); err != nil {
		m.log.Debug("debug page not sent", "error", err)
	}
}

// overview collects the state of the manager, in the order of declaration.
func (m *Manager) overview() debug.Overview {
	o := debug.Overview{
		Instance: m.instance(), Leadership: m.leadership(),
		Controllers: []debug.Controller{}, Cache: []debug.Kind{},
	}
	for _, c := range m.declared() {
		o.Controllers = append(o.Controllers, c.debug())
	}
	for _, cl := range m.Clusters() {
		for _, k := range cl.cache.Kinds() {
			kind := debug.Kind{Cluster: cl.name, Kind: kindName(k.Kind), Objects: k.Objects, Bytes: k.Bytes}
			if k.Err != nil {
				kind.Error = k.Err.Error()
			}
			o.Cache = append(o.Cache, kind)
		}
	}
	return o
}

// declared returns the controllers.
func (m *Manager) declared() []*Controller {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.controllers[:len(m.controllers):len(m.controllers)]
}

func (m *Manager) leadership() debug.Leadership {
	l := debug.Leadership{Mode: "none", Leading: m.Leading()}
	var problem error
	switch {
	case m.elector != nil:
		l.Mode = "election"
		l.Leases = []debug.Lease{m.lease(0)}
		_, problem = m.elector.Holder()
	case m.ring != nil:
		l.Mode = "shards"
		for shard := range m.leads.count {
			l.Leases = append(l.Leases, m.lease(shard))
		}
		l.Members, problem = m.ring.Members()
	}
	if problem != nil {
		l.Problem = problem.Error()
	}
	return l
}

// lease describes the lease of a shard; there must be one.
func (m *Manager) lease(shard int) debug.Lease {
	elector := m.elector
	if m.ring != nil {
		elector = m.ring.Shard(shard)
	}
	l := debug.Lease{Shard: shard, Held: elector.Leading()}
	l.Holder, _ = elector.Holder() // its error is that of a standby, which says less
	if end, ok := elector.Fence(); ok {
		l.Fence = &end
	}
	return l
}

func (c *Controller) debug() debug.Controller {
	snapshot := c.snapshot(debugItems)
	d := debug.Controller{
		Name: c.name, Kind: kindName(c.kind), Problem: c.problem(), Workers: c.workers, Paused: c.pause.closed(),
		Watches: []debug.Watch{}, Ready: map[string]int{}, Delayed: snapshot.Stats.Delayed,
		Running: []debug.Item{}, Waiting: []debug.Item{},
	}
	for _, s := range c.sites() {
		d.Parked += s.takeover.count()
		for _, t := range s.taps {
			watch := t.debug()
			watch.Cluster = s.cluster.name
			d.Watches = append(d.Watches, watch)
		}
	}
	for class, n := range snapshot.Stats.Ready {
		d.Ready[queue.Class(class).String()] = n
	}
	for _, info := range c.reconciling() {
		if len(d.Running) == debugItems {
			break
		}
		d.Running = append(d.Running, runningItem(info))
	}
	for _, waiting := range snapshot.Waiting {
		d.Waiting = append(d.Waiting, waitingItem(waiting))
	}
	return d
}

// problem says what keeps the controller from working, if anything does.
func (c *Controller) problem() string {
	if _, err := c.readiness(); err != nil {
		return err.Error()
	}
	return ""
}

func (s *tap) debug() debug.Watch {
	d := debug.Watch{Source: s.name, Kind: kindName(s.kind)}
	err := s.waitsFor()
	if d.Synced = err == nil; d.Synced {
		err = s.problem()
	}
	if err != nil {
		d.Error = err.Error()
	}
	return d
}

func runningItem(info *reconcileInfo) debug.Item {
	since := info.since
	return debug.Item{
		Object: info.req.String(), ReconcileID: info.id, State: "running", Since: &since, Causes: debugCauses(info.causes),
	}
}

func waitingItem(w queue.Waiting[Request]) debug.Item {
	return debug.Item{
		Object: w.Key.String(), State: w.State, Class: w.Class.String(), Since: optional(w.Since), Due: optional(w.Due),
		Failures: w.Failures, Causes: debugCauses(w.Causes),
	}
}

// optional returns nil for the zero time.
func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func debugCauses(causes []queue.Cause) []debug.Cause {
	out := make([]debug.Cause, len(causes))
	for i, c := range causes {
		out[i] = debugCause(c)
	}
	return out
}

func debugCause(c queue.Cause) debug.Cause {
	return debug.Cause{
		Source: c.Source, Kind: c.Kind, Object: c.Object, Verb: c.Verb, Version: c.Version,
		First: c.First, Last: c.Last, Count: c.Count,
	}
}
