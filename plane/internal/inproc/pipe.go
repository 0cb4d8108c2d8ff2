package inproc

import (
	"context"
	"net/http"
	"sync"
)

// maxBuffered is how many bytes of a response may wait for the client before the
// handler's next write blocks.
const maxBuffered = 1 << 20

// pipe is a bounded buffer between a handler that writes and a client that reads.
type pipe struct {
	ctx context.Context

	mu      sync.Mutex
	data    []byte
	read    int   // bytes of data that the reader has taken
	end     error // what follows the data, once the handler is through
	closed  bool  // by the reader
	changed chan struct{}
}

func newPipe(ctx context.Context) *pipe { return &pipe{ctx: ctx} }

// wait returns a channel that is closed at the next change. mu is held.
func (p *pipe) wait() <-chan struct{} {
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return p.changed
}

// wake tells whoever waits that something changed. mu is held.
func (p *pipe) wake() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// Write appends b, once there is room for more.
func (p *pipe) Write(b []byte) (int, error) {
	for {
		p.mu.Lock()
		if err := p.ctx.Err(); err != nil {
			p.mu.Unlock()
			return 0, err
		}
		if len(p.data)-p.read < maxBuffered {
			if p.read > len(p.data)/2 {
				p.data = append(p.data[:0], p.data[p.read:]...)
				p.read = 0
			}
			p.data = append(p.data, b...)
			p.wake()
			p.mu.Unlock()
			return len(b), nil
		}
		changed := p.wait()
		p.mu.Unlock()
		select {
		case <-changed:
		case <-p.ctx.Done():
		}
	}
}

// finish ends the stream after what has been written.
func (p *pipe) finish(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end = err
	p.wake()
}

// close drops what has not been read.
func (p *pipe) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.data, p.read = nil, 0
	p.wake()
}

// Read takes what has been written; it waits for at least one byte. What was
// written before the request ended can be read afterwards.
func (p *pipe) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	for {
		n, changed, err := p.take(b)
		if n > 0 || err != nil {
			return n, err
		}
		select {
		case <-changed:
		case <-p.ctx.Done():
		}
	}
}

// take reads without waiting; without data and without an end it returns what to
// wait for.
func (p *pipe) take(b []byte) (int, <-chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return 0, nil, http.ErrBodyReadAfterClose
	}
	if n := copy(b, p.data[p.read:]); n > 0 {
		p.read += n
		if p.read == len(p.data) {
			p.data, p.read = p.data[:0], 0
		}
		p.wake()
		return n, nil, nil
	}
	if p.end != nil {
		return 0, nil, p.end
	}
	if err := p.ctx.Err(); err != nil {
		return 0, nil, err
	}
	return 0, p.wait(), nil
}
