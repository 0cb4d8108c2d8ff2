// Package drain counts the requests of a transport, so that the transport can stop
// when they are over.
package drain

import (
	"context"
	"sync"
	"time"
)

// grace is how long Close lets requests finish. Those that are not watches are done
// in less, unless they wait for something outside of the process.
const grace = 50 * time.Millisecond

// Requests are the requests in flight. Make them with New.
type Requests struct {
	mu      sync.Mutex
	closed  bool
	flying  sync.WaitGroup
	running context.Context
	end     context.CancelFunc
}

// New has no requests in flight.
func New() *Requests {
	running, end := context.WithCancel(context.Background())
	return &Requests{running: running, end: end}
}

// Begin counts a request in. Its context ends with ctx and, if need be, with Close;
// done counts it out and ends the context. After Close there is no more to begin.
func (r *Requests) Begin(ctx context.Context) (_ context.Context, done func(), ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, nil, false
	}
	r.flying.Add(1)
	ctx, cancel := context.WithCancel(ctx)
	unhook := context.AfterFunc(r.running, cancel)
	return ctx, func() {
		unhook()
		cancel()
		r.flying.Done()
	}, true
}

// Ended says whether Close has ended the requests' contexts.
func (r *Requests) Ended() bool { return r.running.Err() != nil }

// Close lets no request begin, ends the contexts of those that do not end by
// themselves within a grace, and returns when all are counted out.
func (r *Requests) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	defer time.AfterFunc(grace, r.end).Stop()
	r.flying.Wait()
	r.end()
}
