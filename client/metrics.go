package client

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the client's collectors. They are labelled by resource, as "deployments.apps".
type metrics struct {
	waits   *prometheus.HistogramVec // of cached reads for own writes, by resource
	stale   *prometheus.CounterVec   // reads that went live since the cache was behind, by resource
	skipped *prometheus.CounterVec   // writes not sent since they would change nothing, by verb and resource
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		waits: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "setpoint_client_own_write_wait_seconds",
			Help:    "Time that cached reads waited for the client's own writes to reach the cache.",
			Buckets: []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2},
		}, []string{"resource"}),
		stale: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "setpoint_client_live_fallbacks_total",
			Help: "Reads of cached kinds that went to the server because the cache had not caught up with the client's own writes.",
		}, []string{"resource"}),
		skipped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "setpoint_client_skipped_writes_total",
			Help: "Writes that were not sent because they would have changed nothing.",
		}, []string{"verb", "resource"}),
	}
	if registry == nil {
		return m, nil
	}
	var errs []error
	for _, collector := range []prometheus.Collector{m.waits, m.stale, m.skipped} {
		if err := registry.Register(collector); err != nil {
			errs = append(errs, fmt.Errorf("register metrics: %w", err))
		}
	}
	return m, errors.Join(errs...)
}
