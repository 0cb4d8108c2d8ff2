package telemetry

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/setpoint-dev/setpoint/queue"
)

// Queues are the metrics of all queues of a manager, under the names that
// client-go's work queues have. The label "priority" is the class of the item.
// Retries count what failed or asked to be repeated, not what was planned.
type Queues struct {
	depth, adds, retries, unfinished, longest *prometheus.Desc
	waited, worked                            *prometheus.HistogramVec

	mu     sync.Mutex
	queues []namedQueue
}

type namedQueue struct {
	name  string
	stats func() queue.Stats
}

// NewQueues makes the metrics and registers them.
func NewQueues(reg prometheus.Registerer) (*Queues, error) {
	labels := []string{"name", "controller"}
	desc := func(name, help string, more ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append(labels[:2:2], more...), nil)
	}
	q := &Queues{
		depth:      desc("workqueue_depth", "Items that wait and could run.", "priority"),
		adds:       desc("workqueue_adds_total", "Items that became able to run."),
		retries:    desc("workqueue_retries_total", "Items put back to be retried after a back-off."),
		unfinished: desc("workqueue_unfinished_work_seconds", "Time that all running items together have been running."),
		longest:    desc("workqueue_longest_running_processor_seconds", "Time that the item running longest has been running."),
		waited:     histogram("workqueue_queue_duration_seconds", "Time that an item waited although it could run.", labels...),
		worked:     histogram("workqueue_work_duration_seconds", "Time from handing an item out to its end.", labels...),
	}
	for _, c := range []prometheus.Collector{q, q.waited, q.worked} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return q, nil
}

// Observers returns what a queue calls for each item that it hands out and gets
// back.
func (q *Queues) Observers(name string) (waited func(queue.Class, time.Duration), worked func(time.Duration)) {
	wait, work := q.waited.WithLabelValues(name, name), q.worked.WithLabelValues(name, name)
	waited = func(_ queue.Class, d time.Duration) { wait.Observe(d.Seconds()) }
	worked = func(d time.Duration) { work.Observe(d.Seconds()) }
	return waited, worked
}

// Add makes the metrics show a queue by what stats returns.
func (q *Queues) Add(name string, stats func() queue.Stats) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queues = append(q.queues, namedQueue{name, stats})
}

// Describe implements prometheus.Collector.
func (q *Queues) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{q.depth, q.adds, q.retries, q.unfinished, q.longest} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (q *Queues) Collect(ch chan<- prometheus.Metric) {
	q.mu.Lock()
	queues := q.queues[:len(q.queues):len(q.queues)]
	q.mu.Unlock()
	for _, named := range queues {
		s, name := named.stats(), named.name
		for class, n := range s.Ready {
			ch <- prometheus.MustNewConstMetric(q.depth, prometheus.GaugeValue, float64(n), name, name, queue.Class(class).String())
		}
		ch <- prometheus.MustNewConstMetric(q.adds, prometheus.CounterValue, float64(s.Adds), name, name)
		ch <- prometheus.MustNewConstMetric(q.retries, prometheus.CounterValue, float64(s.Retries), name, name)
		ch <- prometheus.MustNewConstMetric(q.unfinished, prometheus.GaugeValue, s.Unfinished.Seconds(), name, name)
		ch <- prometheus.MustNewConstMetric(q.longest, prometheus.GaugeValue, s.Longest.Seconds(), name, name)
	}
}
