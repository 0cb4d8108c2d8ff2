package setpoint

import (
	"errors"
	"time"
)

// Result says when a reconciler that returned no error wants to be called
// again. The zero value means: when something changes.
//
// An error always wins over a Result. RequeueAfter wins over Requeue.
type Result struct {
	// RequeueAfter plans the next call after that time. It is a plan, not a
	// retry: it resets the key's back-off. A change that comes earlier runs
	// earlier, and that call replaces the plan: return it again while it is
	// needed. A negative value, such as the time until something that is over,
	// means Requeue.
	RequeueAfter time.Duration
	// Requeue asks for a retry after the key's back-off, like an error, but is
	// neither logged nor counted as one.
	Requeue bool
}

// Terminal marks err as one that trying again cannot mend, such as an invalid
// specification. The reconcile is logged and counted as failed, and the key
// waits for the next change. Terminal(nil) is nil.
func Terminal(err error) error {
	if err == nil {
		return nil
	}
	return &terminalError{err}
}

// IsTerminal reports whether err or an error it wraps was marked by Terminal.
func IsTerminal(err error) bool {
	var t *terminalError
	return errors.As(err, &t)
}

type terminalError struct{ err error }

func (e *terminalError) Error() string { return e.err.Error() }
func (e *terminalError) Unwrap() error { return e.err }
