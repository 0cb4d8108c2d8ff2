package setpoint

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/setpoint-dev/setpoint/cache"
	"github.com/setpoint-dev/setpoint/lease"
	"github.com/setpoint-dev/setpoint/telemetry"
)

// defaultGracePeriod is what running work gets to end when the manager stops.
const defaultGracePeriod = 30 * time.Second

// Config configures a Manager. The zero value works: it finds the cluster by
// itself, knows the built-in kinds, logs nothing, serves nothing over the
// network, and runs without leader election.
type Config struct {
	// REST says how to reach the API server. Nil: the kubeconfig that kubectl
	// would use or, when there is none, the service account of the Pod. There is
	// no client-side rate limit unless QPS sets one, since the server's priority
	// and fairness does that job.
	REST *rest.Config
	// Scheme maps kinds to Go types. Nil: the kinds built into Kubernetes.
	Scheme *runtime.Scheme
	// Mapper maps kinds to resources. Nil: the server's discovery, asked again
	// for kinds not known yet.
	Mapper meta.RESTMapper

	// Logger receives all that the manager and its controllers log. Nil
	// discards.
	Logger *slog.Logger
	// Metrics is the registry of the manager's metrics. Nil: a new one, with
	// those of Go and the process. Two managers must not share a registry.
	Metrics *prometheus.Registry
	// MetricsAddress is where /metrics and, with Debug, /debug/setpoint are served,
	// as "host:port"; a missing host is the loopback address. Empty: not served;
	// see Manager.Handler.
	MetricsAddress string
	// MetricsAccess says who may read what is served at MetricsAddress. The zero
	// value serves everyone on the loopback address and elsewhere, over TLS, those
	// whose bearer token the API server knows and who may get the path: see
	// telemetry.Guard, which needs the ClusterRole system:auth-delegator.
	MetricsAccess telemetry.Access
	// MetricsCertificates is what MetricsAddress is served with over TLS: files or
	// an authority of the package webhook. Nil: a self-signed certificate where
	// access is guarded, and no TLS where it is not.
	MetricsCertificates telemetry.Certificates
	// Debug serves the debug endpoint and keeps the last reconciles of each object
	// for it, in some megabytes: see Manager.Handler.
	Debug bool
	// Tracer makes spans of reconciles and of the requests that they send, and links
	// a reconcile to the writes of this process that caused it. Nil: no traces, at
	// no cost.
	Tracer trace.TracerProvider
	// HealthAddress is where /healthz and /readyz are served, as "host:port"; a
	// missing host is the loopback address. Empty: not served. It may equal
	// MetricsAddress.
	HealthAddress string

	// LeaderElection makes the controllers of at most one of several replicas
	// work at a time. Nil: no election. An empty Name is FieldOwner.
	LeaderElection *lease.Config
	// Shards makes the controllers of all replicas work, each on objects of its
	// own. Nil: not divided. It takes the place of LeaderElection.
	Shards *Shards
	// FieldOwner names the owner of applied and updated fields. Two programs
	// that write the same objects must not share it, and changing it leaves the
	// old owner's fields behind. Empty: the base name of the program.
	FieldOwner string
	// DryRun logs the writes of the manager's client instead of sending them;
	// they seem to succeed and change nothing. No Events are sent either. Leases
	// are written as ever: a dry run takes part in elections, so give it a Name of
	// its own, or no election, beside replicas that shall go on working.
	DryRun bool

	// DefaultCache and Kinds say which objects of a watched kind are cached and
	// in what form; Kinds replaces DefaultCache as a whole.
	DefaultCache cache.Options
	Kinds        map[schema.GroupKind]cache.Options

	// Concurrency bounds the reconciles that run at once over all controllers,
	// in each cluster, on top of each controller's Workers. Zero: no such bound.
	Concurrency int
	// GracePeriod is what running reconciles and runnables get to end when the
	// manager stops, before their context is cancelled. Zero: 30 seconds;
	// negative: none.
	GracePeriod time.Duration
	// Seed seeds the manager's randomness: jitter, and the identifiers of
	// reconciles and Events. Zero: a random seed.
	Seed uint64
}

// complete returns a copy of c with its zero values filled in, or all that is
// wrong with it.
func (c Config) complete() (Config, error) {
	var errs []error
	if c.FieldOwner == "" {
		c.FieldOwner = filepath.Base(os.Args[0])
	}
	c, err := c.completeREST()
	errs = append(errs, err)
	if c.Scheme == nil {
		c.Scheme = clientgoscheme.Scheme
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Metrics == nil {
		c.Metrics = prometheus.NewRegistry()
		errs = append(errs,
			c.Metrics.Register(collectors.NewGoCollector()),
			c.Metrics.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})))
	}
	c.MetricsAddress, err = address("MetricsAddress", c.MetricsAddress)
	errs = append(errs, err)
	c.HealthAddress, err = address("HealthAddress", c.HealthAddress)
	errs = append(errs, err)
	if c.LeaderElection != nil {
		election := *c.LeaderElection
		if election.Name == "" {
			election.Name = c.FieldOwner
		}
		election, err = election.Complete()
		c.LeaderElection = &election
		errs = append(errs, err)
	}
	if c.Shards != nil {
		c.Shards, err = c.Shards.complete(c.FieldOwner)
		errs = append(errs, err)
		if c.LeaderElection != nil {
			errs = append(errs, errors.New("LeaderElection and Shards are both set: shards are elected one by one, leave LeaderElection out"))
		}
	}
	if c.Concurrency < 0 {
		errs = append(errs, fmt.Errorf("invalid Concurrency %d: use 0 for no bound", c.Concurrency))
	}
	if c.GracePeriod == 0 {
		c.GracePeriod = defaultGracePeriod
	}
	c.GracePeriod = max(c.GracePeriod, 0)
	if c.Seed == 0 {
		c.Seed = rand.Uint64()
	}
	return c, errors.Join(errs...)
}

func (c Config) completeREST() (Config, error) {
	if c.REST == nil {
		found, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
			clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
		if err != nil {
			return c, fmt.Errorf("no REST config, and no cluster found by kubeconfig or service account: %w", err)
		}
		c.REST = found
	}
	c.REST = c.ownREST(c.REST)
	return c, nil
}

// ownREST returns a copy of cfg with the defaults of a manager.
func (c Config) ownREST(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	if cfg.QPS == 0 && cfg.RateLimiter == nil {
		cfg.QPS = -1
	}
	if cfg.UserAgent == "" {
		cfg.UserAgent = c.FieldOwner + " setpoint"
	}
	return cfg
}

func address(field, addr string) (string, error) {
	if addr == "" {
		return "", nil
	}
	addr, err := telemetry.Address(addr)
	if err != nil {
		return "", fmt.Errorf("%s: %w", field, err)
	}
	return addr, nil
}
