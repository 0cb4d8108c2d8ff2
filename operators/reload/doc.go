// Package reload rolls workloads when a ConfigMap or Secret that they use changes.
package reload
