// Package workload runs Kubernetes' own controllers beside an embedded API server.
package workload
