package setpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/filter"
	"github.com/setpoint-dev/setpoint/queue"
	"github.com/setpoint-dev/setpoint/telemetry"
)

// Controller is a declared controller: its sources, its queue and its workers.
type Controller struct {
	m       *Manager
	name    string
	log     *slog.Logger
	metrics *telemetry.Controller
	queue   *queue.Queue[Request]

	// The declaration; not changed after register.
	kind     schema.GroupVersionKind // of the primary objects
	newEmpty func() client.Object    // nil when T is of no use
	filters  []filter.Filter         // of the primary objects
	sources  []*source               // the first is that of the primary objects
	external []external
	workers  int
	timeout  time.Duration
	backoff  queue.Backoff
	retries  queue.Bucket
	throttle *throttle // nil: none
	// Exactly one of these is set.
	onObject  func(context.Context, client.Object) (Result, error)
	onRequest Reconciler
	errs      []error

	namespaced bool          // whether the primary kind is; set before owners are looked for
	synced     chan struct{} // closed when all sources delivered their first listing
	takeover   *takeover
	running    running
	loops      loops
	pause      pause
}

// newController begins the declaration of a controller for objects of type T.
func newController[T client.Object](m *Manager, name string) *Controller {
	c := &Controller{m: m, name: name, workers: 1, synced: make(chan struct{}), takeover: newTakeover()}
	if name == "" {
		c.mistake("it has no name")
	}
	if t := reflect.TypeFor[T](); t.Kind() == reflect.Pointer {
		c.newEmpty = func() client.Object { return reflect.New(t.Elem()).Interface().(T) }
	} else {
		c.mistake("For[%v]: the type must be a pointer to a kind's Go type", t)
	}
	return c
}

// Name returns the name given to For.
func (c *Controller) Name() string { return c.name }

// mistake keeps something that is wrong with the declaration.
func (c *Controller) mistake(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf("controller %q: %w", c.name, fmt.Errorf(format, args...)))
}

// register completes the declaration and makes it known to the manager.
func (c *Controller) register() *Controller {
	c.completeKind()
	if c.workers < 1 {
		c.mistake("Workers(%d): at least one is needed", c.workers)
	}
	if c.timeout < 0 {
		c.mistake("Timeout(%v) is negative", c.timeout)
	}
	if c.onObject == nil && c.onRequest == nil {
		c.mistake("the reconciler is nil")
	}
	c.log = c.m.log.With("controller", c.name)
	c.metrics = c.m.reconciles.Controller(c.name)
	c.metrics.MaxWorkers.Set(float64(c.workers))
	waited, worked := c.m.queues.Observers(c.name)
	c.queue = queue.New(queue.Config[Request]{
		Flow:    flow,
		Backoff: c.backoff, Retries: c.retries,
		Waited: waited, Worked: worked,
	})
	c.m.queues.Add(c.name, c.queue.Stats)
	c.m.readyz.Add(c.name, c.readiness)
	c.m.healthz.Add(c.name, c.liveness)

	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	if c.m.started {
		c.log.Error("a controller declared after Run was called does not run")
		return c
	}
	c.m.controllers = append(c.m.controllers, c)
	return c
}

// flow is what requests share a controller's workers by: the namespace.
func flow(r Request) string {
	if r.Cluster == "" {
		return r.Namespace
	}
	return r.Cluster + ":" + r.Namespace
}

// completeKind finds the kind of the primary objects and puts their source
// first.
func (c *Controller) completeKind() {
	if c.newEmpty == nil {
		return
	}
	obj := c.newEmpty()
	if c.kind.Empty() {
		gvk, err := c.m.client.GroupVersionKind(obj)
		if err != nil {
			c.mistake("For[%T]: %w", obj, err)
			return
		}
		c.kind = gvk
	}
	switch obj.(type) {
	case *unstructured.Unstructured, *metav1.PartialObjectMetadata:
		empty, gvk := c.newEmpty, c.kind
		c.newEmpty = func() client.Object {
			obj := empty()
			obj.GetObjectKind().SetGroupVersionKind(gvk)
			return obj
		}
	}
	primary := newSource("For", c.kind, c.onPrimary)
	c.sources = append([]*source{primary}, c.sources...)
}

// readiness says whether the controller has all that it needs to work, and if
// not, what it waits for.
func (c *Controller) readiness() (string, error) {
	select {
	case <-c.synced:
	default:
		var waits []error
		for _, s := range c.sources {
			if err := s.waitsFor(); err != nil {
				waits = append(waits, err)
			}
		}
		if len(waits) == 0 {
			return "", errors.New("not started")
		}
		return "", errors.Join(waits...)
	}
	if stuck := c.running.stuck(time.Now(), c.patience()); len(stuck) == c.workers {
		return "", fmt.Errorf("all %d workers are stuck; the longest reconciles %s since %v", c.workers, stuck[0].req, stuck[0].since)
	}
	for _, s := range c.sources {
		if err := s.problem(); err != nil {
			return "working, but " + err.Error(), nil
		}
	}
	return "", nil
}
