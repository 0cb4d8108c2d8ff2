package expose

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/filter"
)

// routesPatience is after how long a Service that asks for an HTTPRoute is told that the cluster serves none.
const routesPatience = 10 * time.Second

// routes knows whether the cluster serves HTTPRoutes. Most clusters do not, and some begin to while the operator runs, so
// that is nothing for a controller's readiness to depend on: the kind is watched beside the controllers.
type routes struct {
	ready chan struct{} // closed once they can be read and written

	mu      sync.Mutex
	problem error // why they are not served, once that is sure enough
}

func newRoutes() *routes { return &routes{ready: make(chan struct{})} }

// served reports whether HTTPRoutes can be read and written.
func (s *routes) served() bool {
	select {
	case <-s.ready:
		return true
	default:
		return false
	}
}

// missing returns why HTTPRoutes are not served, or nil if that is not known yet.
func (s *routes) missing() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.problem
}

func (s *routes) miss(problem error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problem = problem
}

// awaitRoutes is a source of the Ingresses' controller: it adds those of all Services that ask to be exposed once HTTPRoutes
// are served, since some may give way to HTTPRoutes then.
func (r *reconciler) awaitRoutes(ctx context.Context, add func(setpoint.Request)) error {
	select {
	case <-r.routes.ready:
		for _, request := range ingressRequests(r.asking(ctx, "")) {
			add(request)
		}
	case <-ctx.Done():
	}
	return nil
}

// followRoutes is a source of the Services' controller: it adds the Services whose HTTPRoutes change, which have the same
// names, and all that ask to be exposed when it turns out whether HTTPRoutes are served.
func (r *reconciler) followRoutes(ctx context.Context, add func(setpoint.Request)) error {
	watch, err := r.cache.Watch(routeKind, func(c filter.Change) { add(setpoint.RequestFor(c.Latest().Meta())) })
	if err != nil {
		return fmt.Errorf("watching HTTPRoutes: %w", err)
	}
	defer watch.Close()
	addAll := func() {
		for _, request := range requestsFor(r.asking(ctx, "")) {
			add(request)
		}
	}
	patience, cancel := context.WithTimeout(ctx, routesPatience)
	defer cancel()
	if err := watch.WaitSynced(patience); err != nil && ctx.Err() == nil {
		setpoint.Logger(ctx).Info("HTTPRoutes are not served; Services that ask for one wait until they are", "error", err)
		r.routes.miss(err)
		addAll()
		if watch.WaitSynced(ctx) == nil {
			setpoint.Logger(ctx).Info("HTTPRoutes are served now")
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	close(r.routes.ready)
	addAll()
	<-ctx.Done()
	return nil
}

// route brings the Service's HTTPRoute to what the plan asks for, and says whether it leads to the Service. A plan without
// one is open.
func (r *reconciler) route(ctx context.Context, service *corev1.Service, p plan) (way, error) {
	wanted := p.exposer == exposerRoute
	if !r.routes.served() {
		return open, nil // then none is wanted, and there are none
	}
	key := client.KeyOf(service)
	existing := newRoute(key)
	err := r.client.Get(ctx, key, existing)
	if client.IgnoreNotFound(err) != nil {
		return coming, fmt.Errorf("looking for the Service's HTTPRoute: %w", err)
	}
	exists := err == nil
	mine := exists && isMine(existing, r.own(routeKind, key))
	err = nil
	switch decide(exists, mine, existing.GetDeletionTimestamp() != nil, wanted) {
	case create:
		err = r.ensure(ctx, claimRoute(key), desiredRoute(service, p, ""))
	case apply:
		wanted := desiredRoute(service, p, existing.GetUID())
		wanted.SetResourceVersion(existing.GetResourceVersion())
		err = r.client.Apply(ctx, wanted, client.ForceOwnership, client.IfUnchanged) // for it may be another's by now
		if why := refusal(existing); err == nil && why != "" {
			r.report(service, problems{{reasonNotAccepted, fmt.Sprintf("No Gateway accepts HTTPRoute %q: %s", key.Name, why)}})
			return blocked, nil
		}
	case remove:
		return open, client.IgnoreNotFound(r.client.Delete(ctx, existing, client.IfUnchanged))
	case wait:
		if wanted {
			return coming, nil
		}
	case refuse:
		r.report(service, problems{{reasonNameTaken, fmt.Sprintf("HTTPRoute %q exists and was not made by %s: delete it.", key.Name, FieldOwner)}})
		return blocked, nil
	}
	if isRejected(err) {
		r.report(service, problems{{reasonRejected, fmt.Sprintf("The server does not accept HTTPRoute %q: %v", key.Name, err)}})
	}
	return open, err
}
