package lease

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// vectors are the metrics of all leases of a process, under the names that
// dashboards know.
type vectors struct {
	status *prometheus.GaugeVec
	slow   *prometheus.CounterVec
}

// metrics are those of one lease.
type metrics struct {
	status prometheus.Gauge
	slow   prometheus.Counter
}

func newVectors(registry prometheus.Registerer) (vectors, error) {
	v := vectors{
		status: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "leader_election_master_status",
			Help: "Whether this process holds the lease of that name: 1 or 0.",
		}, []string{"name"}),
		slow: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "leader_election_slowpath_total",
			Help: "Renewals of the lease of that name that had to read it first, because somebody else had written it.",
		}, []string{"name"}),
	}
	if registry == nil {
		return v, nil
	}
	return v, errors.Join(registry.Register(v.status), registry.Register(v.slow))
}

// of returns the metrics of one lease, which are exported from now on.
func (v vectors) of(name string) metrics {
	return metrics{status: v.status.WithLabelValues(name), slow: v.slow.WithLabelValues(name)}
}
