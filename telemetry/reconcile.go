package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The results that controller_runtime_reconcile_total tells apart.
const (
	ResultSuccess      = "success"
	ResultError        = "error"
	ResultRequeue      = "requeue"
	ResultRequeueAfter = "requeue_after"
)

// durations are the bounds, in seconds, of the histograms of reconciles and
// waiting times: from a cached no-op to a call of a slow external system.
var durations = []float64{
	0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
	1, 2.5, 5, 10, 30, 60, 120, 300, 600,
}

func histogram(name, help string, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: durations,
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  100,
		NativeHistogramMinResetDuration: time.Hour,
	}, labels)
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

// Reconciles are the metrics of all controllers of a manager.
type Reconciles struct {
	total, errors, terminal, panics, timeouts, looped *prometheus.CounterVec
	seconds, fanOut                                   *prometheus.HistogramVec
	maximum, active, stuck, ready                     *prometheus.GaugeVec
}

// NewReconciles makes the metrics and registers them.
func NewReconciles(reg prometheus.Registerer) (*Reconciles, error) {
	const label = "controller"
	m := &Reconciles{
		total:    counter("controller_runtime_reconcile_total", "Reconciles by controller and result.", label, "result"),
		errors:   counter("controller_runtime_reconcile_errors_total", "Reconciles that failed.", label),
		terminal: counter("controller_runtime_terminal_reconcile_errors_total", "Reconciles that failed with an error that is not retried.", label),
		panics:   counter("controller_runtime_reconcile_panics_total", "Reconciles that panicked.", label),
		timeouts: counter("controller_runtime_reconcile_timeouts_total", "Reconciles whose context reached its deadline.", label),
		seconds:  histogram("controller_runtime_reconcile_time_seconds", "Duration of reconciles.", label),
		maximum:  gauge("controller_runtime_max_concurrent_reconciles", "Workers of the controller.", label),
		active:   gauge("controller_runtime_active_workers", "Workers that are reconciling.", label),
		stuck:    gauge("setpoint_stuck_reconciles", "Reconciles that have run for much longer than they should.", label),
		ready:    gauge("setpoint_controller_ready", "Whether the controller has received the first listing of all its sources in the manager's own cluster: 1 or 0.", label),
		looped:   counter("setpoint_self_triggered_reconciles_total", "Reconciles caused by nothing but the controller's own writes.", label),
		fanOut: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "setpoint_map_requests",
			Help:    "Requests that one change of a watched object brought.",
			Buckets: []float64{0, 1, 10, 100, 1000, 10000},
		}, []string{label, "kind"}),
	}
	for _, c := range []prometheus.Collector{m.total, m.errors, m.terminal, m.panics, m.timeouts, m.seconds, m.maximum, m.active, m.stuck, m.ready, m.looped, m.fanOut} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Controller are the metrics of one controller.
type Controller struct {
	Errors, Terminal, Panics, Timeouts, SelfTriggered prometheus.Counter
	MaxWorkers, ActiveWorkers, Stuck, Ready           prometheus.Gauge

	results map[string]prometheus.Counter
	seconds prometheus.Observer
	fanOut  prometheus.ObserverVec
}

// Controller returns the metrics of the controller with that name, all of which
// exist from then on.
func (m *Reconciles) Controller(name string) *Controller {
	c := &Controller{
		Errors:        m.errors.WithLabelValues(name),
		Terminal:      m.terminal.WithLabelValues(name),
		Panics:        m.panics.WithLabelValues(name),
		Timeouts:      m.timeouts.WithLabelValues(name),
		SelfTriggered: m.looped.WithLabelValues(name),
		MaxWorkers:    m.maximum.WithLabelValues(name),
		ActiveWorkers: m.active.WithLabelValues(name),
		Stuck:         m.stuck.WithLabelValues(name),
		Ready:         m.ready.WithLabelValues(name),
		results:       map[string]prometheus.Counter{},
		seconds:       m.seconds.WithLabelValues(name),
		fanOut:        m.fanOut.MustCurryWith(prometheus.Labels{"controller": name}),
	}
	for _, result := range []string{ResultSuccess, ResultError, ResultRequeue, ResultRequeueAfter} {
		c.results[result] = m.total.WithLabelValues(name, result)
	}
	return c
}

// Done counts a reconcile that took d and ended with one of the results.
func (c *Controller) Done(result string, d time.Duration) {
	c.results[result].Inc()
	c.seconds.Observe(d.Seconds())
}

// FanOut counts the requests that one change of an object of that kind brought.
func (c *Controller) FanOut(kind string, requests int) {
	c.fanOut.WithLabelValues(kind).Observe(float64(requests))
}
