package setpoint

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/setpoint-dev/setpoint/queue"
)

// debugItems is how many running and waiting objects of a controller the debug
// page shows of each.
const debugItems = 100

// Handler returns the handler of all that a manager serves over HTTP, for
// programs that serve it themselves:
//
//	/healthz            200 unless only a new process can help
//	/readyz             200 when all controllers can work, else which cannot and why
//	/metrics            Prometheus metrics
//	/debug/controllers  what runs and what waits, and why, as JSON
//
// The checks can be asked for one by one (/readyz/foo), list all with ?verbose
// and leave one out with ?exclude=foo. Config.MetricsAccess guards the last two.
func (m *Manager) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", m.metricsHandler())
	mux.Handle("/debug/", m.metricsHandler())
	mux.Handle("/", m.healthHandler())
	return mux
}

// metricsHandler serves what shows the insides.
func (m *Manager) metricsHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(m.cfg.Metrics, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	mux.HandleFunc("/debug/controllers", m.serveDebug)
	if m.cfg.MetricsAccess != nil {
		return m.cfg.MetricsAccess(mux)
	}
	return mux
}

func (m *Manager) healthHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/healthz", m.healthz)
	mux.Handle("/healthz/", m.healthz)
	mux.Handle("/readyz", m.readyz)
	mux.Handle("/readyz/", m.readyz)
	return mux
}

// debugController is what the debug page says of a controller.
type debugController struct {
	Name    string         `json:"name"`
	Kind    string         `json:"kind"`
	Problem string         `json:"problem,omitempty"` // why it does not work
	Paused  bool           `json:"paused,omitempty"`
	Workers int            `json:"workers"`
	Ready   map[string]int `json:"ready"` // objects that could run, by class
	Delayed int            `json:"delayed"`
	Running []debugItem    `json:"running"`
	Waiting []debugItem    `json:"waiting"`
}

// debugItem is an object that runs or waits.
type debugItem struct {
	Object      string     `json:"object"`
	ReconcileID string     `json:"reconcileID,omitempty"`
	State       string     `json:"state,omitempty"`
	Class       string     `json:"class,omitempty"`
	Since       time.Time  `json:"since"`
	Due         *time.Time `json:"due,omitempty"`
	Failures    int        `json:"failures,omitempty"`
	Causes      []string   `json:"causes"`
}

// serveDebug answers with the state of all controllers, in the order of their
// declaration.
func (m *Manager) serveDebug(w http.ResponseWriter, _ *http.Request) {
	m.mu.Lock()
	controllers := m.controllers[:len(m.controllers):len(m.controllers)]
	m.mu.Unlock()
	page := struct {
		Leading     bool              `json:"leading"`
		Shards      []int             `json:"shards,omitempty"` // that are held, when there are several
		Controllers []debugController `json:"controllers"`
	}{Leading: m.Leading(), Controllers: []debugController{}}
	if m.ring != nil {
		page.Shards = m.ring.Held()
	}
	for _, c := range controllers {
		page.Controllers = append(page.Controllers, c.debug())
	}
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(page); err != nil {
		m.log.Debug("debug page not sent", "error", err)
	}
}

func (c *Controller) debug() debugController {
	snapshot := c.queue.Snapshot(debugItems)
	d := debugController{
		Name: c.name, Kind: kindName(c.kind), Workers: c.workers, Paused: c.pause.closed(),
		Ready: map[string]int{}, Delayed: snapshot.Stats.Delayed, Running: []debugItem{}, Waiting: []debugItem{},
	}
	if _, err := c.readiness(); err != nil {
		d.Problem = err.Error()
	}
	for class, n := range snapshot.Stats.Ready {
		d.Ready[queue.Class(class).String()] = n
	}
	for _, info := range c.running.list() {
		if len(d.Running) == debugItems {
			break
		}
		d.Running = append(d.Running, debugItem{
			Object: info.req.String(), ReconcileID: info.id, Since: info.since, Causes: causesValue(info.causes).texts(),
		})
	}
	for _, item := range snapshot.Waiting {
		d.Waiting = append(d.Waiting, debugItem{
			Object: item.Key.String(), State: item.State, Class: item.Class.String(), Since: item.Since,
			Due: &item.Due, Failures: item.Failures, Causes: causesValue(item.Causes).texts(),
		})
	}
	return d
}
