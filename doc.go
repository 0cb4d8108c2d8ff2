// Package setpoint runs Kubernetes controllers.
package setpoint
