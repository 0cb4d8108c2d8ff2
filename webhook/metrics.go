package webhook

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// latencies are the bounds, in seconds, of the histogram: from a check in memory
// to the longest that an API server waits.
var latencies = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}

// metrics are those of a server, under the names that dashboards know.
type metrics struct {
	total    *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	inFlight *prometheus.GaugeVec
	panics   *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer, certificates Certificates) (*metrics, error) {
	const label = "webhook"
	m := &metrics{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "controller_runtime_webhook_requests_total", Help: "Requests by path and HTTP status; a denial is 200.",
		}, []string{label, "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "controller_runtime_webhook_latency_seconds", Help: "Duration of requests by path.", Buckets: latencies,
			NativeHistogramBucketFactor:     1.1,
			NativeHistogramMaxBucketNumber:  100,
			NativeHistogramMinResetDuration: time.Hour,
		}, []string{label}),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "controller_runtime_webhook_requests_in_flight", Help: "Requests being answered, by path.",
		}, []string{label}),
		panics: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "controller_runtime_webhook_panics_total", Help: "Requests whose function panicked, by path.",
		}, []string{label}),
	}
	expires := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "setpoint_webhook_certificate_expires_timestamp_seconds",
		Help: "When the certificate being served expires, in Unix time; 0: there is none.",
	}, func() float64 {
		cert, err := certificates.Certificate()
		if err != nil {
			return 0
		}
		return float64(cert.Leaf.NotAfter.Unix())
	})
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.total, m.seconds, m.inFlight, m.panics, expires} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// instrument counts and times the requests to a path.
func (m *metrics) instrument(path string, next http.Handler) http.Handler {
	label := prometheus.Labels{"webhook": path}
	m.panics.With(label)
	total := m.total.MustCurryWith(label)
	total.WithLabelValues("200")
	total.WithLabelValues("500")
	return promhttp.InstrumentHandlerDuration(m.seconds.MustCurryWith(label),
		promhttp.InstrumentHandlerCounter(total,
			promhttp.InstrumentHandlerInFlight(m.inFlight.With(label), next)))
}
