package setpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"

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
	http    *http.Client
	mapper  meta.RESTMapper
	cache   *cache.Cache
	client  *client.Client
	events  *event.Sink
	leads   *leadership
	elector *lease.Elector   // nil without leader election
	ring    *lease.Ring      // nil without shards
	wall    func() time.Time // the wall clock
	slots   chan struct{}    // bounds all reconciles; nil without a bound

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
		wall:    time.Now,
		rand:    rand.New(rand.NewPCG(cfg.Seed, 0)),
		healthz: telemetry.NewChecks("healthz"),
		readyz:  telemetry.NewChecks("readyz"),
	}
	if cfg.Debug {
		m.history = newHistory()
	}
	if m.tracer = newTracer(cfg.Tracer); m.tracer != nil {
		cfg.REST.Wrap(m.tracer.wrap)
	}
	if cfg.Concurrency > 0 {
		m.slots = make(chan struct{}, cfg.Concurrency)
	}
	for _, part := range []func() error{m.makeMetrics, m.makeClient, m.makeLeadership, m.makeEvents} {
		if err := part(); err != nil {
			return nil, fmt.Errorf("manager: %w", err)
		}
	}
	return m, nil
}

func (m *Manager) makeMetrics() error {
	var errReconciles, errQueues, errRequests error
	var requests *telemetry.Requests
	m.reconciles, errReconciles = telemetry.NewReconciles(m.cfg.Metrics)
	m.queues, errQueues = telemetry.NewQueues(m.cfg.Metrics)
	requests, errRequests = telemetry.NewRequests(m.cfg.Metrics)
	if err := errors.Join(errReconciles, errQueues, errRequests); err != nil {
		return fmt.Errorf("register metrics (does another manager use the registry?): %w", err)
	}
	m.cfg.REST.Wrap(requests.Wrap)
	m.rights = telemetry.NewRights(m.cfg.REST.Host)
	m.cfg.REST.Wrap(m.rights.Wrap)
	return nil
}

func (m *Manager) makeClient() (err error) {
	if m.http, err = rest.HTTPClientFor(m.cfg.REST); err != nil {
		return fmt.Errorf("HTTP client of the REST config: %w", err)
	}
	if m.mapper = m.cfg.Mapper; m.mapper == nil {
		if m.mapper, err = client.NewMapper(m.cfg.REST, m.http); err != nil {
			return fmt.Errorf("mapper: %w", err)
		}
	}
	m.cache, err = cache.New(cache.Config{
		REST: m.cfg.REST, HTTP: m.http, Scheme: m.cfg.Scheme, Mapper: m.mapper,
		Logger: m.log, Metrics: m.cfg.Metrics,
		Default: m.cfg.DefaultCache, Kinds: m.cfg.Kinds,
		FieldOwners: []string{m.cfg.FieldOwner},
		Rand:        rand.New(rand.NewPCG(m.cfg.Seed, 1)),
	})
	if err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	if m.guard, err = telemetry.NewGuard(m.cfg.REST, m.http, m.log); err != nil {
		return err
	}
	m.client, err = client.New(client.Config{
		REST: m.cfg.REST, HTTP: m.http, Scheme: m.cfg.Scheme, Mapper: m.mapper,
		Cache: m.cache, FieldOwner: m.cfg.FieldOwner, Gate: m.gate, Observe: m.observe,
		Logger: m.log, Metrics: m.cfg.Metrics,
	})
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	return nil
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
	}
}

// Client returns the client, whose reads of watched kinds come from the cache.
func (m *Manager) Client() *client.Client { return m.client }

// Cache returns the cache, to declare indexes and further watches.
func (m *Manager) Cache() *cache.Cache { return m.cache }

// Metrics returns the registry of the manager's metrics.
func (m *Manager) Metrics() *prometheus.Registry { return m.cfg.Metrics }

// Events returns a recorder of Kubernetes Events that names controller as
// their reporter. It may be used before and while the manager runs.
func (m *Manager) Events(controller string) *event.Recorder { return m.events.Recorder(controller) }

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
