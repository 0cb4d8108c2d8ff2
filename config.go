package setpoint

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/lease"
)

// Config configures a Manager. The zero value works: it finds the cluster by
// itself, knows the built-in kinds, logs nothing, serves nothing over the
// network, and runs without leader election.
type Config struct {
	// REST says how to reach the API server. Nil: the service account of the
	// Pod when there is one, else the kubeconfig that kubectl would use.
	// Setpoint sets no client-side rate limit of its own: a zero QPS means
	// none, since the server's priority and fairness does that job.
	REST *rest.Config
	// Scheme maps kinds to Go types. Nil: the kinds built into Kubernetes.
	Scheme *runtime.Scheme
	// Mapper maps kinds to resources. Nil: the server's discovery, asked again
	// for kinds not known yet.
	Mapper meta.RESTMapper

	// Logger receives all that the manager and its controllers log. Nil
	// discards.
	Logger *slog.Logger
	// Metrics is the registry of the manager's metrics. Nil: a new one. Two
	// managers must not share a registry.
	Metrics *prometheus.Registry
	// MetricsAddress is where /metrics is served, as "host:port"; a missing
	// host is the loopback address. Empty: not served; see Manager.Handler.
	MetricsAddress string
	// HealthAddress is where /healthz and /readyz are served, likewise.
	// It may equal MetricsAddress.
	HealthAddress string

	// LeaderElection makes the controllers of at most one of several replicas
	// work at a time. Nil: no election.
	LeaderElection *lease.Config
	// FieldOwner names the owner of applied and updated fields. Empty: the
	// base name of the program.
	FieldOwner string

	// Concurrency bounds the reconciles that run at once over all controllers,
	// on top of each controller's Workers. Zero: no such bound.
	Concurrency int
	// GracePeriod is what running reconciles and runnables get to end when the
	// manager stops, before their context is cancelled. Zero: 30 seconds;
	// negative: none.
	GracePeriod time.Duration
	// Seed seeds the manager's randomness: jitter and reconcile identifiers.
	// Zero: a random seed.
	Seed uint64
}
