package cache

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// metrics are the collectors of one cache. The kind label is like "Deployment.apps".
type metrics struct {
	listings *prometheus.CounterVec
	failures *prometheus.CounterVec
	scans    *prometheus.CounterVec
	objects  *prometheus.Desc
	bytes    *prometheus.Desc
}

func newMetrics() *metrics {
	kind := []string{"kind"}
	return &metrics{
		listings: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "setpoint_cache_listings_total",
			Help: "Complete listings taken from the server: one per kind and namespace at start, more when a watch could not be resumed.",
		}, kind),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "setpoint_cache_watch_errors_total",
			Help: "Failed lists and watches, by reason.",
		}, []string{"kind", "reason"}),
		scans: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "setpoint_cache_scans_total",
			Help: "Lists that looked at every object because no index served their selector.",
		}, kind),
		objects: prometheus.NewDesc("setpoint_cache_objects", "Objects in the cache.", kind, nil),
		bytes: prometheus.NewDesc("setpoint_cache_bytes",
			"Memory that the cached objects take, without indexes and decoded forms.", kind, nil),
	}
}

func (c *Cache) register(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	var errs []error
	for _, collector := range []prometheus.Collector{c.metrics.listings, c.metrics.failures, c.metrics.scans, sizes{c}} {
		if err := r.Register(collector); err != nil {
			errs = append(errs, fmt.Errorf("register metrics: %w", err))
		}
	}
	return errors.Join(errs...)
}

// sizes reads the present sizes of the stores when it is asked.
type sizes struct{ cache *Cache }

func (s sizes) Describe(descs chan<- *prometheus.Desc) {
	descs <- s.cache.metrics.objects
	descs <- s.cache.metrics.bytes
}

func (s sizes) Collect(values chan<- prometheus.Metric) {
	type size struct{ objects, bytes float64 }
	kinds := map[schema.GroupKind]size{} // a kind may be watched in two versions
	for _, k := range s.cache.Kinds() {
		was := kinds[k.Kind.GroupKind()]
		kinds[k.Kind.GroupKind()] = size{was.objects + float64(k.Objects), was.bytes + float64(k.Bytes)}
	}
	for kind, size := range kinds {
		values <- prometheus.MustNewConstMetric(s.cache.metrics.objects, prometheus.GaugeValue, size.objects, kind.String())
		values <- prometheus.MustNewConstMetric(s.cache.metrics.bytes, prometheus.GaugeValue, size.bytes, kind.String())
	}
}

// stats counts for one kind.
type stats struct {
	metrics *metrics
	kind    string
}

func (m *metrics) of(gvk schema.GroupVersionKind) *stats {
	return &stats{metrics: m, kind: gvk.GroupKind().String()}
}

func (s *stats) listed() { s.metrics.listings.WithLabelValues(s.kind).Inc() }

func (s *stats) scanned() { s.metrics.scans.WithLabelValues(s.kind).Inc() }

func (s *stats) failed(err error) { s.metrics.failures.WithLabelValues(s.kind, reason(err)).Inc() }

// reason names an error by one of few words.
func reason(err error) string {
	var silence *silenceError
	switch r := apierrors.ReasonForError(err); {
	case meta.IsNoMatchError(err):
		return "NoMatch"
	case errors.Is(err, errNoStreaming):
		return "NoStreaming"
	case errors.As(err, &silence):
		return "Silence"
	case r != metav1.StatusReasonUnknown:
		return string(r)
	}
	return "Connection"
}
