package setpoint

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/cache"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/event"
	"github.com/setpoint-dev/setpoint/telemetry"
)

// Clusters says of a cluster, by its name, whether it is meant. The empty name
// is that of the manager's own cluster. It must always answer the same.
type Clusters func(name string) bool

// HomeCluster means the manager's own cluster only.
func HomeCluster(name string) bool { return name == "" }

// MemberClusters means all clusters that were added to the manager.
func MemberClusters(name string) bool { return name != "" }

// AllClusters means the manager's own cluster and all that were added.
func AllClusters(string) bool { return true }

// Cluster is what is needed to work with one of the manager's clusters: its own,
// whose name is empty, or a member, which AddCluster added. Clusters share
// nothing but the declarations: each has its own cache, its own connections, and
// its own queue and workers of each controller.
type Cluster struct {
	name    string
	rest    *rest.Config
	http    *http.Client
	mapper  meta.RESTMapper
	cache   *cache.Cache
	client  *client.Client
	events  *event.Sink
	records atomic.Bool // somebody asked for a recorder
	metrics *registrations
	slots   chan struct{}         // bounds the reconciles of all controllers; nil without a bound
	sites   map[*Controller]*site // the controllers at work in it; guarded by Manager.mu
	member  *membership           // nil for the manager's own
}

// Name returns the name, as in Request.Cluster.
func (c *Cluster) Name() string { return c.name }

// Client returns the client of this cluster, whose reads of watched kinds come
// from its cache.
func (c *Cluster) Client() *client.Client { return c.client }

// Cache returns the cache of this cluster.
func (c *Cluster) Cache() *cache.Cache { return c.cache }

// Events returns a recorder of Events about objects of this cluster, which are
// kept there, that names controller as their reporter.
func (c *Cluster) Events(controller string) *event.Recorder {
	c.records.Store(true)
	return c.events.Recorder(controller)
}

// clusterKey finds the cluster that a context belongs to.
type clusterKey struct{}

// ClusterOf returns the cluster that a reconcile works on, or that a change comes
// from which a map function is called with, by their context. It is nil in other
// contexts.
func ClusterOf(ctx context.Context) *Cluster {
	c, _ := ctx.Value(clusterKey{}).(*Cluster)
	return c
}

// Cluster returns the cluster of that name, or nil when there is none (any more).
// The empty name is that of the manager's own.
func (m *Manager) Cluster(name string) *Cluster {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.clusterNamed(name)
}

// clusterNamed is Cluster; mu is held.
func (m *Manager) clusterNamed(name string) *Cluster {
	if name == "" {
		return m.home
	}
	if c := m.members[name]; c != nil && c.member.open {
		return c
	}
	return nil
}

// Clusters returns the manager's own cluster and then the members by name.
func (m *Manager) Clusters() []*Cluster {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.allClusters()
}

// allClusters is Clusters; mu is held.
func (m *Manager) allClusters() []*Cluster {
	all := []*Cluster{m.home}
	for _, name := range slices.Sorted(maps.Keys(m.members)) {
		if c := m.members[name]; c.member.open {
			all = append(all, c)
		}
	}
	return all
}

// EveryCluster calls setup for each cluster before anything is watched in it:
// now for those that are there, and for each that is added later. It is the
// place to declare indexes. It must be called before Run; an error for a cluster
// that is there is returned by Run, one for a later cluster by AddCluster.
func (m *Manager) EveryCluster(setup func(*Cluster) error) {
	m.mu.Lock()
	m.setups = append(m.setups, setup)
	present := m.allClusters()
	m.mu.Unlock()
	for _, c := range present {
		if err := setup(c); err != nil {
			m.mu.Lock()
			m.errs = append(m.errs, fmt.Errorf("cluster %q: %w", c.name, err))
			m.mu.Unlock()
		}
	}
}

// connect makes what a cluster needs, except Events. It sends no request. What
// c has in cfg must be complete.
func (m *Manager) connect(c *Cluster, cfg ClusterConfig) (err error) {
	c.rest, c.mapper, c.sites = cfg.REST, cfg.Mapper, map[*Controller]*site{}
	c.metrics = &registrations{Registerer: prometheus.WrapRegistererWith(prometheus.Labels{"cluster": c.name}, m.cfg.Metrics)}
	if m.cfg.Concurrency > 0 {
		c.slots = make(chan struct{}, m.cfg.Concurrency)
	}
	requests, err := telemetry.NewRequests(c.metrics)
	if err != nil {
		return fmt.Errorf("register metrics (does another manager use the registry?): %w", err)
	}
	c.rest.Wrap(requests.Wrap)
	if m.tracer != nil {
		c.rest.Wrap(m.tracer.wrap)
	}
	if c.http, err = rest.HTTPClientFor(c.rest); err != nil {
		return fmt.Errorf("HTTP client of the REST config: %w", err)
	}
	if c.mapper == nil {
		discovery := *c.http
		if c.member != nil {
			discovery.Transport = mortal{c.member.alive, discovery.Transport}
		}
		if c.mapper, err = client.NewMapper(c.rest, &discovery); err != nil {
			return fmt.Errorf("mapper: %w", err)
		}
	}
	log := m.log
	if c.name != "" {
		log = log.With("cluster", c.name)
	}
	c.cache, err = cache.New(cache.Config{
		REST: c.rest, HTTP: c.http, Scheme: m.cfg.Scheme, Mapper: c.mapper,
		Logger: log, Metrics: c.metrics,
		Default: m.cfg.DefaultCache, Kinds: m.cfg.Kinds,
		FieldOwners: []string{m.cfg.FieldOwner},
		Rand:        rand.New(rand.NewPCG(m.cfg.Seed, sequence(c.name))),
	})
	if err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	c.client, err = client.New(client.Config{
		REST: c.rest, HTTP: c.http, Scheme: m.cfg.Scheme, Mapper: c.mapper,
		Cache: c.cache, FieldOwner: m.cfg.FieldOwner,
		Gate: func(ctx context.Context, r client.Request, send func(context.Context) error) error {
			return m.gate(ctx, c, r, send)
		},
		Observe: func(ctx context.Context, r client.Request) (context.Context, func(client.Written)) {
			return m.observe(ctx, c, r)
		},
		Logger: log, Metrics: c.metrics,
	})
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	return nil
}

// sequence tells the random sequences of the clusters' caches apart.
func sequence(name string) uint64 {
	hash := fnv.New64a()
	hash.Write([]byte(name))
	return hash.Sum64()
}

// registrations registers metrics of one cluster and can take all of them back.
// Register is all that is called of it.
type registrations struct {
	prometheus.Registerer
	collectors []prometheus.Collector
}

func (r *registrations) Register(c prometheus.Collector) error {
	err := r.Registerer.Register(c)
	if err == nil {
		r.collectors = append(r.collectors, c)
	}
	return err
}

func (r *registrations) drop() {
	for _, c := range r.collectors {
		r.Unregister(c)
	}
}

// acquire waits for the right to reconcile under the bound of all controllers,
// and reports false when ctx ended first.
func (c *Cluster) acquire(ctx context.Context) bool {
	if c.slots == nil {
		return true
	}
	select {
	case c.slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (c *Cluster) release() {
	if c.slots != nil {
		<-c.slots
	}
}

// maxNamed is how many clusters that are not ready are named at a time.
const maxNamed = 10

// clustersCheck says which members are not ready. It never fails: what is wrong
// with one cluster must not cost the others this replica.
func (m *Manager) clustersCheck() (string, error) {
	var bad []string
	members := m.Clusters()[1:]
	for _, c := range members {
		if err := m.problemOf(c); err != nil {
			bad = append(bad, c.name+": "+strings.ReplaceAll(err.Error(), "\n", "; "))
		}
	}
	detail := fmt.Sprintf("%d of %d ready", len(members)-len(bad), len(members))
	if more := len(bad) - maxNamed; more > 0 {
		bad = append(bad[:maxNamed], fmt.Sprintf("%d more", more))
	}
	if len(bad) > 0 {
		detail += "; not ready: " + strings.Join(bad, "; ")
	}
	return detail, nil
}

// problemOf returns what keeps controllers from working well in a cluster, or
// nil.
func (m *Manager) problemOf(c *Cluster) error {
	var errs []error
	for _, s := range m.sitesIn(c) {
		err := s.waits()
		if err == nil {
			err = errors.Join(s.stuck(), s.interrupted())
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("controller %q: %w", s.name, err))
		}
	}
	return errors.Join(errs...)
}

// sitesIn returns the controllers at work in a cluster, in the order of their
// declaration.
func (m *Manager) sitesIn(c *Cluster) []*site {
	m.mu.Lock()
	defer m.mu.Unlock()
	var sites []*site
	for _, controller := range m.controllers {
		if s := c.sites[controller]; s != nil {
			sites = append(sites, s)
		}
	}
	return sites
}

// allSites returns all sites, by controller and cluster.
func (m *Manager) allSites() []*site {
	var sites []*site
	for _, c := range m.declared() {
		sites = append(sites, c.sites()...)
	}
	return sites
}

func (m *Manager) hasStarted() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.started
}

// warmingUp reports whether the manager started so lately that clusters which
// are not listed yet are worth waiting for.
func (m *Manager) warmingUp() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Since(m.since) < warmUp
}

// checkName returns an error when a member cannot be called that.
func checkName(name string) error {
	if name == "" {
		return errors.New("the empty name is the manager's own cluster's")
	}
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return fmt.Errorf("the name is invalid: %s", strings.Join(problems, "; "))
	}
	return nil
}

// bind returns a context that also ends when the cluster's time is over, and
// belongs to it.
func (c *Cluster) bind(ctx context.Context) (bound context.Context, release func()) {
	ctx = context.WithValue(ctx, clusterKey{}, c)
	if c.member == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.member.alive, func() { cancel(context.Cause(c.member.alive)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// ended reports whether the cluster's time is over.
func (c *Cluster) ended() bool { return c.member != nil && c.member.alive.Err() != nil }
