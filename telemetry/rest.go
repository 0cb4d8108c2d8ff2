package telemetry

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Requests are the metrics of the requests to an API server.
type Requests struct {
	total   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
}

// NewRequests makes the metrics and registers them.
func NewRequests(reg prometheus.Registerer) (*Requests, error) {
	r := &Requests{
		total:   counter("rest_client_requests_total", "Requests by status code, method and host; the code of a failed request is <error>.", "code", "method", "host"),
		seconds: histogram("rest_client_request_duration_seconds", "Time from a request to the head of its answer.", "verb", "host"),
	}
	for _, c := range []prometheus.Collector{r.total, r.seconds} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Wrap returns a transport that counts the requests which next sends.
func (r *Requests) Wrap(next http.RoundTripper) http.RoundTripper {
	return &countingTransport{metrics: r, next: next}
}

type countingTransport struct {
	metrics *Requests
	next    http.RoundTripper
}

func (t *countingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	start := time.Now()
	resp, err := t.next.RoundTrip(req)
	code := "<error>"
	if err == nil {
		code = strconv.Itoa(resp.StatusCode)
	}
	t.metrics.total.WithLabelValues(code, req.Method, req.URL.Host).Inc()
	t.metrics.seconds.WithLabelValues(req.Method, req.URL.Host).Observe(time.Since(start).Seconds())
	return resp, err
}

// WrappedRoundTripper returns the transport that t sends with, for those who
// look for a particular one.
func (t *countingTransport) WrappedRoundTripper() http.RoundTripper { return t.next }
