package setpoint

import (
	"context"
	"net/http"

	"github.com/setpoint-dev/setpoint/cache"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/event"
)

// Manager holds what controllers share: the cache, the client, metrics, health
// and leadership. It does nothing before Run, and leaves nothing behind after.
type Manager struct {
	cfg         Config
	cache       *cache.Cache
	client      *client.Client
	errs        []error
	controllers []*Controller
	runnables   []Runnable
}

// NewManager checks the configuration and returns a manager. All that is wrong
// with it is in the one error.
func NewManager(cfg Config) (*Manager, error) {
	return &Manager{cfg: cfg}, nil
}

// Run starts everything, blocks until ctx ends or a part fails, and then stops
// everything: no new reconcile starts, running ones get the grace period, the
// lease is released, and no goroutine is left. It returns nil when ctx ended
// and all stopped in time. Mistakes in the declarations of controllers are
// returned at once, before anything starts. A manager runs once.
func (m *Manager) Run(ctx context.Context) error { return ctx.Err() }

// Runnable is something else that runs with the manager.
type Runnable struct {
	// Name is what logs and errors call it.
	Name string
	// Run returns when ctx ends, or earlier when its work is done. An error
	// stops the manager.
	Run func(ctx context.Context) error
	// Standby runs it on every replica, whether it leads or not. By default it
	// runs where the controllers work.
	Standby bool
}

// Add makes r run with the manager.
func (m *Manager) Add(r Runnable) { m.runnables = append(m.runnables, r) }

// Client returns the client, whose reads of watched kinds come from the cache.
func (m *Manager) Client() *client.Client { return m.client }

// Cache returns the cache, to declare indexes and further watches.
func (m *Manager) Cache() *cache.Cache { return m.cache }

// Events returns a recorder of Kubernetes Events that names controller as
// their reporter. It may be used before and while the manager runs.
func (m *Manager) Events(controller string) *event.Recorder { return nil }

// Handler returns the handler of /metrics, /healthz and /readyz, for programs
// that serve HTTP themselves.
func (m *Manager) Handler() http.Handler { return nil }
