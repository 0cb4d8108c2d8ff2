package setpoint

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/filter"
)

// PausedAnnotation on a primary object, with the value "true", keeps its
// reconciler from being called, also while the object is being deleted. When it
// is taken away the object is reconciled at once.
const PausedAnnotation = "setpoint.dev/paused"

func isPaused(annotations map[string]string) bool { return annotations[PausedAnnotation] == "true" }

// pauseChanged reports whether a change paused an object or ended that.
func pauseChanged(change filter.Change) bool {
	return change.Old != nil && change.New != nil &&
		isPaused(change.Old.Meta().Annotations) != isPaused(change.New.Meta().Annotations)
}

// keyPaused reports whether the object that a request names is known to be
// paused.
func (c *site) keyPaused(req Request) bool {
	entry, ok := c.cluster.cache.Peek(c.kind, req.Key())
	if !ok {
		return false
	}
	var object metav1.PartialObjectMetadata
	return entry.Decode(&object) == nil && isPaused(object.Annotations)
}

// Pause keeps the controller from starting reconciles until Resume. Changes are
// collected meanwhile, and running reconciles end normally.
func (c *Controller) Pause() { c.pause.set(true) }

// Resume ends what Pause began.
func (c *Controller) Resume() { c.pause.set(false) }

// pause is a gate that is open at first.
type pause struct {
	mu      sync.Mutex
	resumed chan struct{} // nil when open, else closed when it opens
}

func (p *pause) set(paused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case paused && p.resumed == nil:
		p.resumed = make(chan struct{})
	case !paused && p.resumed != nil:
		close(p.resumed)
		p.resumed = nil
	}
}

// wait waits until the gate is open and reports false when ctx ended first.
func (p *pause) wait(ctx context.Context) bool {
	p.mu.Lock()
	resumed := p.resumed
	p.mu.Unlock()
	if resumed == nil {
		return true
	}
	select {
	case <-resumed:
		return true
	case <-ctx.Done():
		return false
	}
}

// closed reports whether the gate is closed.
func (p *pause) closed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.resumed != nil
}
