package setpoint

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/setpoint-dev/setpoint/queue"
	"github.com/setpoint-dev/setpoint/telemetry/debug"
)

// contextKey is the key of a reconcile's own value in its context.
type contextKey struct{}

// reconcileInfo is what a reconcile's context knows of the reconcile.
type reconcileInfo struct {
	id     string
	req    Request
	since  time.Time
	causes []queue.Cause

	traceID string // of its span, "" without one
	hops    int    // reconciles before it in its trace

	mu       sync.Mutex
	wrote    writes
	sent     []debug.Write // for the history, the first historyWrites
	unlisted int           // how many more there were
}

// infoOf returns what is known of the reconcile that ctx belongs to, or nil.
func infoOf(ctx context.Context) *reconcileInfo {
	info, _ := ctx.Value(contextKey{}).(*reconcileInfo)
	return info
}

// Causes returns why the reconcile that ctx belongs to was started, oldest
// first, or nil outside of a reconcile. Causes explain; they never decide:
// several changes merge into one call, and a change may be missed while the
// process is down.
func Causes(ctx context.Context) []queue.Cause {
	info := infoOf(ctx)
	if info == nil {
		return nil
	}
	return info.causes
}

// ReconcileID returns the identifier that the log lines of the reconcile which
// ctx belongs to carry, or "" outside of a reconcile.
func ReconcileID(ctx context.Context) string {
	info := infoOf(ctx)
	if info == nil {
		return ""
	}
	return info.id
}

// Logger returns the logger of the reconcile or runnable that ctx belongs to. In
// a reconcile its lines carry controller, object, reconcileID and causes. It
// never returns nil; outside it discards. Users of logr find the same logger by
// logr.FromContext.
func Logger(ctx context.Context) *slog.Logger {
	if l := logr.FromContextAsSlogLogger(ctx); l != nil {
		return l
	}
	return slog.New(slog.DiscardHandler)
}

// withLogger returns ctx with the manager's logger and one attribute.
func (m *Manager) withLogger(ctx context.Context, key, value string) context.Context {
	return logr.NewContextWithSlogLogger(ctx, m.log.With(key, value))
}
