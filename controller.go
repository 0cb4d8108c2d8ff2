package setpoint

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/filter"
)

// Controller is a declared controller.
type Controller struct {
	name      string
	primary   struct{ gvk schema.GroupVersionKind }
	workers   int
	timeout   time.Duration
	reconcile Reconciler
}

func newController[T client.Object](m *Manager, name string) *Controller {
	return &Controller{name: name, workers: 1}
}

// Name returns the name given to For.
func (c *Controller) Name() string { return c.name }

func (c *Controller) when(filter.Filter)                  {}
func (c *Controller) owns(client.Object, []filter.Filter) {}
func (c *Controller) watches(client.Object, func(context.Context, client.Object) []Request, []filter.Filter) {
}
func (c *Controller) reads(client.Object)   {}
func (c *Controller) source(string, Source) {}
func (c *Controller) register() *Controller { return c }

func objectReconciler[T client.Object](c *Controller, fn func(context.Context, T) (Result, error)) Reconciler {
	return nil
}
