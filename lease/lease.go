// Package lease elects, by a coordination.k8s.io Lease, the one replica whose
// controllers work.
package lease

import "time"

// Config configures an election.
type Config struct {
	// Namespace and Name say which Lease object the replicas share. An empty
	// Namespace is the namespace of the Pod that the program runs in.
	Namespace string
	Name      string
	// Identity names this replica. Empty: host name and a random suffix.
	Identity string
	// Duration is for how long others respect a lease that is not renewed.
	// Zero: 15 seconds.
	Duration time.Duration
	// RenewDeadline is for how long the holder tries to renew before it gives
	// up; it must be less than Duration. Zero: 10 seconds.
	RenewDeadline time.Duration
	// RetryPeriod is the time between tries; it must be less than
	// RenewDeadline. Zero: 2 seconds.
	RetryPeriod time.Duration
}
