// Package telemetry is what a manager shows of itself over HTTP: Prometheus
// metrics, liveness and readiness.
//
// Metrics that users' dashboards and alerts already query keep the names and
// labels known from controller-runtime and client-go (controller_runtime_*,
// workqueue_*, rest_client_*); what those do not have is named setpoint_*. All
// are kept in the registry that was passed in; nothing is registered globally,
// and each manager has metrics of its own.
//
// Laws: nothing listens before Serve is called, and nothing after it has
// returned; an address without a host is the loopback address; a check is
// called once per request, concurrently with others, and must not block.
package telemetry
