package setpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/setpoint-dev/setpoint/cache"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/event"
	"github.com/setpoint-dev/setpoint/lease"
	"github.com/setpoint-dev/setpoint/telemetry"
)

// Manager holds what controllers share: the cache, the client, metrics, health
// and leadership. It does nothing before Run, and leaves nothing behind after.
type Manager struct {
	cfg     Config
	log     *slog.Logger
	home    *Cluster // its own
	leads   *leadership
	elector *lease.Elector   // nil without leader election
	ring    *lease.Ring      // nil without shards
	wall    func() time.Time // the wall clock

	reconciles *telemetry.Reconciles
	queues     *telemetry.Queues
	rights     *telemetry.Rights // that requests were seen to need
	guard      *telemetry.Guard  // of metrics and debug pages, where they are guarded
	tracer     *tracer           // nil without traces
	history    *history          // nil without the debug endpoint
	healthz    *telemetry.Checks
	readyz     *telemetry.Checks

	randMu sync.Mutex
	rand   *rand.Rand

	mu          sync.Mutex
	errs        []error // mistakes in declarations
	controllers []*Controller
	runnables   []Runnable
	started     bool
	since       time.Time              // when it started
	setups      []func(*Cluster) error // of EveryCluster
	members     map[string]*Cluster    // added clusters, and names that are not free yet
	showMembers sync.Once              // has /readyz name them
	host        *host                  // runs the members; nil while the manager does not run
}

// NewManager checks the configuration and returns a manager. All that is wrong
// with it is in the one error. It sends no request.
func NewManager(cfg Config) (*Manager, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, fmt.Errorf("manager: %w", err)
	}
	m := &Manager{
		cfg:     cfg,
		log:     cfg.Logger,
		home:    &Cluster{},
		members: map[string]*Cluster{},
		wall:    time.Now,
		rand:    rand.New(rand.NewPCG(cfg.Seed, 0)),
		healthz: telemetry.NewChecks("healthz"),
		readyz:  telemetry.NewChecks("readyz"),
	}
	if cfg.Debug {
		m.history = newHistory()
	}
	m.tracer = newTracer(cfg.Tracer)
	for _, part := range []func() error{
		m.makeMetrics,
		m.makeHome,
		m.makeLeadership,
		func() error { return m.makeEvents(m.home) },
	} {
		if err := part(); err != nil {
			return nil, fmt.Errorf("manager: %w", err)
		}
	}
	return m, nil
}

func (m *Manager) makeMetrics() error {
	var errReconciles, errQueues error
	m.reconciles, errReconciles = telemetry.NewReconciles(m.cfg.Metrics)
	m.queues, errQueues = telemetry.NewQueues(m.cfg.Metrics)
	if err := errors.Join(errReconciles, errQueues); err != nil {
		return fmt.Errorf("register metrics (does another manager use the registry?): %w", err)
	}
	return nil
}

// makeHome makes what the manager's own cluster needs.
func (m *Manager) makeHome() (err error) {
	m.rights = telemetry.NewRights(m.cfg.REST.Host)
	m.cfg.REST.Wrap(m.rights.Wrap)
	if err := m.connect(m.home, ClusterConfig{REST: m.cfg.REST, Mapper: m.cfg.Mapper}); err != nil {
		return err
	}
	m.guard, err = telemetry.NewGuard(m.home.rest, m.home.http, m.log)
	return err
}

// random returns a random number of the manager's own sequence.
func (m *Manager) random() uint64 {
	m.randMu.Lock()
	defer m.randMu.Unlock()
	return m.rand.Uint64()
}

// instance names this process in Events and, with a suffix, in leases.
func (m *Manager) instance() string {
	switch {
	case m.elector != nil:
		return m.elector.Identity()
	case m.ring != nil:
		return m.ring.Identity()
	}
	host, err := os.Hostname()
	if err != nil {
		return m.cfg.FieldOwner
	}
	return m.cfg.FieldOwner + "-" + host
}

// Runnable is something else that runs with the manager.
type Runnable struct {
	// Name is what logs and errors call it. It must be unique in the manager.
	Name string
	// Run returns soon after ctx has ended, or earlier when its work is done. An
	// error stops the manager. With leader election it is called each time the
	// lease was won, and ctx ends with the lease, too. With shards that is the
	// first one's.
	Run func(ctx context.Context) error
	// Standby runs it on every replica, whether it leads or not. By default it
	// runs where the controllers work.
	Standby bool
	// Check says in /readyz, under Name, how it is: an error when it cannot do its
	// work, and else some detail, which may be empty. It must not block. Where the
	// runnable does not run because another replica leads it is not asked. Nil: no
	// check.
	Check telemetry.Check
}

// Add makes r run with the manager. It must be called before Run.
func (m *Manager) Add(r Runnable) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.started:
		m.log.Error("a runnable added after Run was called does not run", "runnable", r.Name)
	case r.Name == "" || r.Run == nil:
		m.errs = append(m.errs, fmt.Errorf("runnable %q: Name and Run must be set", r.Name))
	default:
		m.runnables = append(m.runnables, r)
		if r.Check != nil {
			m.readyz.Add(r.Name, func() (string, error) { return m.checkRunnable(r) })
		}
	}
}

func (m *Manager) checkRunnable(r Runnable) (string, error) {
	if !r.Standby && !m.leads.holdsShard(0) && m.hasStarted() {
		return "runs where another replica leads", nil
	}
	return r.Check()
}

// Client returns the client of the manager's own cluster, whose reads of watched
// kinds come from the cache.
func (m *Manager) Client() *client.Client { return m.home.client }

// Cache returns the cache of the manager's own cluster, to declare indexes and
// further watches.
func (m *Manager) Cache() *cache.Cache { return m.home.cache }

// Metrics returns the registry of the manager's metrics.
func (m *Manager) Metrics() *prometheus.Registry { return m.cfg.Metrics }

// Events returns a recorder of Kubernetes Events that names controller as
// their reporter, in the manager's own cluster. It may be used before and while
// the manager runs.
func (m *Manager) Events(controller string) *event.Recorder { return m.home.Events(controller) }

// Leading reports whether the controllers of this process may work now, with
// shards: on some of them. It is always so when there is no leader election.
func (m *Manager) Leading() bool {
	switch {
	case m.elector != nil:
		return m.elector.Leading()
	case m.ring != nil:
		return len(m.ring.Held()) > 0
	}
	return true
}
