package reload

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the operator's own, beside those of its controllers.
type metrics struct {
	rollouts      *prometheus.CounterVec
	notifications *prometheus.CounterVec
	problems      prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, b *budget) (*metrics, error) {
	m := &metrics{
		rollouts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "setpoint_reload_rollouts_total", Help: "Rollouts begun because a source changed, by kind of workload.",
		}, []string{"kind"}),
		notifications: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "setpoint_reload_notifications_total", Help: "Notifications of rollouts, by result: sent, failed or dropped.",
		}, []string{"result"}),
		problems: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "setpoint_reload_invalid_annotations_total", Help: "Problems found in workloads' annotations.",
		}),
	}
	waiting := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "setpoint_reload_waiting", Help: "Workloads that wait for the end of other rollouts.",
	}, func() float64 { return float64(b.length()) })
	return m, errors.Join(reg.Register(m.rollouts), reg.Register(m.notifications), reg.Register(m.problems), reg.Register(waiting))
}
