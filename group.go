package setpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

// group runs functions in goroutines and knows which of them still run.
type group struct {
	log *slog.Logger
	// stop is called with the error of each function that returns one.
	stop func(error)

	mu      sync.Mutex
	running map[string]int // by name
	closed  bool
	errs    []error
	idle    chan struct{} // closed when nothing runs any more; nil until asked for
}

func newGroup(log *slog.Logger, stop func(error)) *group {
	return &group{log: log, stop: stop, running: map[string]int{}}
}

// start runs fn. A panic of fn is its error, and its stack is logged. Errors
// carry the name. It reports false when the group was closed.
func (g *group) start(name string, fn func() error) bool {
	if !g.enter(name) {
		return false
	}
	go func() {
		var err error
		defer func() { g.ended(name, err) }() // also when fn calls runtime.Goexit
		if err = recovered(fn); err == nil {
			return
		}
		if panicked := (*panicError)(nil); errors.As(err, &panicked) {
			g.log.Error("panic", "in", name, "error", err, "stack", string(panicked.stack))
		}
		err = fmt.Errorf("%s: %w", name, err)
		g.stop(err)
	}()
	return true
}

// enter counts something that the caller runs, until it calls ended. It reports
// false when the group was closed.
func (g *group) enter(name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.running[name]++
	}
	return !g.closed
}

// close keeps more from entering and from being started.
func (g *group) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

func (g *group) ended(name string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		g.errs = append(g.errs, err)
	}
	if g.running[name]--; g.running[name] == 0 {
		delete(g.running, name)
	}
	if len(g.running) == 0 && g.idle != nil {
		close(g.idle)
		g.idle = nil
	}
}

// err returns the errors of the functions that have ended.
func (g *group) err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return errors.Join(g.errs...)
}

// wait waits until nothing runs any more, but no longer than d and than ctx
// lasts, and returns the names of what still runs then, sorted.
func (g *group) wait(ctx context.Context, d time.Duration) []string {
	g.mu.Lock()
	if len(g.running) == 0 {
		g.mu.Unlock()
		return nil
	}
	if g.idle == nil {
		g.idle = make(chan struct{})
	}
	idle := g.idle
	g.mu.Unlock()

	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-idle:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	return g.names()
}

// names returns the names of what runs, sorted.
func (g *group) names() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Sorted(maps.Keys(g.running))
}

// panicError is a recovered panic.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// Unwrap returns the value of the panic when it was an error.
func (e *panicError) Unwrap() error {
	err, _ := e.value.(error)
	return err
}

// recovered calls fn and turns a panic into an error that carries the stack.
func recovered(fn func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{value: v, stack: debug.Stack()}
		}
	}()
	return fn()
}
