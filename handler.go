package setpoint

import (
	"context"
	"fmt"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/setpoint-dev/setpoint/telemetry"
	"github.com/setpoint-dev/setpoint/telemetry/debug"
)

// Handler returns the handler of all that a manager serves over HTTP, for
// programs that serve it themselves:
//
//	/healthz                200 unless only a new process can help
//	/readyz                 200 when all controllers can work, else which cannot and why
//	/metrics                Prometheus metrics
//	/debug/setpoint         what runs and what waits, and why
//	/debug/setpoint/object  the story of one object
//	/debug/setpoint/rbac    the roles that the program needs
//
// The checks can be asked for one by one (/readyz/foo), list all with ?verbose
// and leave one out with ?exclude=foo. The debug pages are there with
// Config.Debug only; see the package telemetry/debug. Metrics and debug pages are
// guarded as Config.MetricsAccess says, without an address only by GuardAll: then
// the program must serve over TLS.
func (m *Manager) Handler() http.Handler {
	mux := http.NewServeMux()
	insides := m.metricsHandler(m.cfg.MetricsAccess.Guards(m.cfg.MetricsAddress))
	mux.Handle("/metrics", insides)
	mux.Handle("/debug/", insides)
	mux.Handle("/", m.healthHandler())
	return mux
}

// metricsHandler serves what shows the insides.
func (m *Manager) metricsHandler(guarded bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(m.cfg.Metrics, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	if m.cfg.Debug {
		mux.HandleFunc(debug.PathOverview, m.serveOverview)
		mux.HandleFunc(debug.PathObject, m.serveObject)
		mux.HandleFunc(debug.PathRoles, m.serveRoles)
	}
	if guarded {
		return m.guard.Wrap(mux)
	}
	return mux
}

func (m *Manager) healthHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/healthz", m.healthz)
	mux.Handle("/healthz/", m.healthz)
	mux.Handle("/readyz", m.readyz)
	mux.Handle("/readyz/", m.readyz)
	return mux
}

// startServers starts what serves metrics, debug pages and health.
func (m *Manager) startServers(ctx context.Context, g *group) {
	metrics, health := m.cfg.MetricsAddress, m.cfg.HealthAddress
	if metrics != "" {
		guarded := m.cfg.MetricsAccess.Guards(metrics)
		if !guarded && !telemetry.IsLoopback(metrics) {
			m.log.Warn("everyone who reaches this address can read the metrics, since MetricsAccess does not guard them", "address", metrics)
		}
		handler := m.metricsHandler(guarded)
		if metrics == health {
			handler = m.Handler()
		}
		certs := m.cfg.MetricsCertificates
		if certs == nil && guarded {
			certs = &telemetry.SelfSigned{}
		}
		if certs != nil {
			g.start("metrics certificates", func() error { return certs.Run(ctx) })
		}
		m.serveHTTP(ctx, g, metrics, handler, certs)
	}
	if health != "" && health != metrics {
		m.serveHTTP(ctx, g, health, m.healthHandler(), nil)
	}
}

// serveHTTP serves on an address, over TLS when there are certificates.
func (m *Manager) serveHTTP(ctx context.Context, g *group, addr string, handler http.Handler, certs telemetry.Certificates) {
	g.start("server on "+addr, func() error {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
		if err != nil {
			return fmt.Errorf("serve metrics and health: %w", err)
		}
		m.log.Info("serving metrics and health", "address", listener.Addr().String(), "tls", certs != nil)
		if certs != nil {
			listener = telemetry.WithTLS(listener, certs)
		}
		return telemetry.Serve(ctx, listener, handler, m.log)
	})
}
