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

// Controller is a declared controller: what it watches, in which clusters, and what
// it does.
type Controller struct {
	m       *Manager
	name    string
	log     *slog.Logger
	metrics *telemetry.Controller

	// The declaration; not changed after register.
	kind     schema.GroupVersionKind // of the primary objects
	newEmpty func() client.Object    // nil when T is of no use
	filters  []filter.Filter         // of the primary objects
	sources  []*source               // the first is that of the primary objects
	external []external
	in       Clusters // whose objects it reconciles
	workers  int      // in each cluster
	timeout  time.Duration
	backoff  queue.Backoff
	retries  queue.Bucket
	rate     queue.Bucket // of all reconciles; zero: no bound
	optional bool         // whether the primary kind may not be served
	// Exactly one of these is set.
	onObject  func(context.Context, client.Object) (Result, error)
	onRequest Reconciler
	errs      []error

	pause pause
	past  queue.Stats // the counters of clusters that were removed; guarded by Manager.mu
}

// newController begins the declaration of a controller for objects of type T.
func newController[T client.Object](m *Manager, name string) *Controller {
	c := &Controller{m: m, name: name, in: HomeCluster, workers: 1}
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
	c.m.queues.Add(c.name, c.stats)
	c.m.readyz.Add(c.name, c.readiness)
	c.m.healthz.Add(c.name, c.liveness)

	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	if c.m.started {
		c.log.Error("a controller declared after Run was called does not run")
		return c
	}
	c.m.controllers = append(c.m.controllers, c)
	c.settle(c.m.home)
	return c
}

// completeKind finds the kind of the primary objects and puts their source
// first.
func (c *Controller) completeKind() {
	if c.newEmpty == nil {
		return
	}
	obj := c.newEmpty()
	if c.kind.Empty() {
		gvk, err := c.m.home.client.GroupVersionKind(obj)
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
	c.sources = append([]*source{{"For", c.kind, (*site).onPrimary, nil}}, c.sources...)
}

// readiness says whether the controller has all that it needs to work, and if
// not, what it waits for. It waits for clusters that were added only a bounded
// time after the start, and does not mind what happens to them later.
func (c *Controller) readiness() (string, error) {
	if !c.m.hasStarted() {
		return "", errors.New("not started")
	}
	detail := ""
	for _, s := range c.sites() {
		waits := s.waits()
		switch {
		case s.cluster.name == "" && s.missing():
			detail = "idle: " + waits.Error()
		case s.cluster.name == "":
			if err := errors.Join(waits, s.stuck()); err != nil {
				return "", err
			}
			if err := s.interrupted(); err != nil {
				detail = "working, but " + err.Error()
			}
		case waits != nil && c.m.warmingUp():
			return "", fmt.Errorf("cluster %q: %w", s.cluster.name, waits)
		}
	}
	return detail, nil
}
