package lease

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// The times that most Kubernetes components use, too.
const (
	DefaultDuration      = 15 * time.Second
	DefaultRenewDeadline = 10 * time.Second
	DefaultRetryPeriod   = 2 * time.Second
)

// podNamespaceFile holds the namespace of the Pod that a process runs in.
const podNamespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// Config configures an election.
type Config struct {
	// Namespace and Name say which Lease object the replicas share. An empty
	// Namespace is the namespace of the Pod that the program runs in, and an
	// error elsewhere. An empty Name is chosen by the manager, from its
	// FieldOwner.
	Namespace string
	Name      string
	// Identity names this process among the replicas; no two may share one.
	// Empty: the host name and a random suffix.
	Identity string
	// Duration is for how long others respect a lease that is not renewed: how
	// long a crash keeps the work from being done. Whole seconds. Zero: 15 s.
	Duration time.Duration
	// RenewDeadline is for how long the holder tries to renew before it stops
	// its work; it must be less than Duration. Zero: 10 s.
	RenewDeadline time.Duration
	// RetryPeriod is the time between two tries to renew or to acquire; it must
	// be less than RenewDeadline. Zero: 2 s.
	RetryPeriod time.Duration
}

// Complete returns c with its zero values filled in, or all that is wrong with
// it.
func (c Config) Complete() (Config, error) {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("leader election: "+format, args...))
	}
	if c.Name == "" {
		bad("no Name for the Lease")
	}
	if c.Namespace == "" {
		data, err := os.ReadFile(podNamespaceFile)
		if c.Namespace = strings.TrimSpace(string(data)); c.Namespace == "" {
			bad("no Namespace, and none found in a Pod's service account (%w): set its Namespace", err)
		}
	}
	if c.Identity == "" {
		host, err := os.Hostname()
		if err != nil {
			bad("no Identity, and no host name to make one of: %w", err)
		}
		c.Identity = host + "_" + suffix()
	}
	c.Duration = orDefault(c.Duration, DefaultDuration)
	c.RenewDeadline = orDefault(c.RenewDeadline, DefaultRenewDeadline)
	c.RetryPeriod = orDefault(c.RetryPeriod, DefaultRetryPeriod)
	if c.Duration < time.Second || c.Duration%time.Second != 0 {
		bad("Duration %v is not a whole, positive number of seconds", c.Duration)
	}
	if c.RenewDeadline >= c.Duration {
		bad("RenewDeadline %v must be less than Duration %v, or two replicas can work at once", c.RenewDeadline, c.Duration)
	}
	if c.RetryPeriod <= 0 || c.RetryPeriod >= c.RenewDeadline {
		bad("RetryPeriod %v must be more than zero and less than RenewDeadline %v", c.RetryPeriod, c.RenewDeadline)
	}
	return c, errors.Join(errs...)
}

func orDefault(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return d
}

// suffix returns 16 random hexadecimal digits. They must differ between
// processes that were started from the same seed, so they do not come from it.
func suffix() string {
	var b [8]byte
	rand.Read(b[:]) //nolint:errcheck // it never fails
	return hex.EncodeToString(b[:])
}
