package workload

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

const (
	// discoveryPeriod bounds how long a change goes unnoticed that is not one of a
	// CustomResourceDefinition: an APIService that appears.
	discoveryPeriod = 30 * time.Second
	// A definition is in discovery some milliseconds after it is established.
	// Discovery is asked again after firstSettle, twice that and so on up to
	// lastSettle, until every definition is in it. One that is never accepted ends
	// the series after about a second.
	firstSettle = 5 * time.Millisecond
	lastSettle  = 640 * time.Millisecond
)

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// resources knows which resources the API server has. The garbage collector and
// the quota controller follow it instead of asking for discovery periodically,
// and it is the RESTMapper of all controllers.
type resources struct {
	meta.RESTMapper // resolves with the newest answer; never nil

	client   discovery.CachedDiscoveryInterface
	monitors *monitors
	changed  chan struct{} // capacity 1: a definition changed

	mu      sync.Mutex
	current snapshot
	next    chan struct{} // closed when current is replaced
	// deleted are the resources whose definition was deleted since the last answer,
	// gone those of them that discovery may still have.
	deleted, gone map[schema.GroupResource]bool
}

// snapshot is one answer of discovery.
type snapshot struct {
	revision  int
	preferred []*metav1.APIResourceList
	mapper    meta.RESTMapper
	// withdrawn has, for each resource whose definition was deleted, the revision
	// that took it away. Who saw an older one must be told that it went, even if it
	// is back.
	withdrawn map[schema.GroupResource]int
}

// newResources asks for discovery once, so that controllers can be built from it.
func newResources(ctx context.Context, client discovery.DiscoveryInterface, monitors *monitors) (*resources, error) {
	r := &resources{
		client:   memory.NewMemCacheClient(client),
		monitors: monitors,
		changed:  make(chan struct{}, 1),
		next:     make(chan struct{}),
		deleted:  map[schema.GroupResource]bool{},
		gone:     map[schema.GroupResource]bool{},
	}
	r.RESTMapper = lateMapper{r}
	if err := r.refresh(ctx); err != nil {
		return nil, err
	}
	if len(r.snapshot().preferred) == 0 {
		return nil, errors.New("workload: the API server serves no resources; start the controllers when it does")
	}
	if err := r.watchDefinitions(); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *resources) watchDefinitions() error {
	informer, err := r.monitors.ForResource(definitions)
	if err != nil {
		return err
	}
	_, err = informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    r.definitionAdded,
		UpdateFunc: func(any, any) { r.signal() },
		DeleteFunc: r.definitionDeleted,
	})
	if err != nil {
		return fmt.Errorf("workload: watching CustomResourceDefinitions: %w", err)
	}
	return nil
}

func (r *resources) signal() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

func (r *resources) definitionAdded(object any) {
	if resource, ok := defines(object); ok {
		r.mu.Lock()
		delete(r.gone, resource)
		r.mu.Unlock()
		r.signal()
	}
}

// definitionDeleted ends the informers of the resource: their watch has nothing
// to watch any more, and if the resource comes back they would find out only
// after a long back-off.
func (r *resources) definitionDeleted(object any) {
	if resource, ok := defines(object); ok {
		r.monitors.forget(resource)
		r.mu.Lock()
		r.deleted[resource], r.gone[resource] = true, true
		r.mu.Unlock()
		r.signal()
	}
}

// defines names the resource that the CustomResourceDefinition defines.
func defines(object any) (schema.GroupResource, bool) {
	if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = unknown.Obj
	}
	definition, err := meta.Accessor(object)
	if err != nil {
		return schema.GroupResource{}, false
	}
	return schema.ParseGroupResource(definition.GetName()), true
}

// run keeps the answer fresh until ctx ends.
func (r *resources) run(ctx context.Context) {
	ticker := time.NewTicker(discoveryPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.changed:
			r.settle(ctx)
		case <-ticker.C:
			r.refreshOrLog(ctx)
		}
	}
}

// settle asks for discovery until it has every definition and none that is gone,
// or for about a second.
func (r *resources) settle(ctx context.Context) {
	for delay := firstSettle; ; delay *= 2 {
		r.refreshOrLog(ctx)
		if r.complete() || delay > lastSettle {
			return
		}
		timer := time.NewTimer(delay)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-r.changed:
			timer.Stop()
			delay = firstSettle
		case <-timer.C:
		}
	}
}

// complete tells whether discovery knows what there is of definitions.
func (r *resources) complete() bool {
	informer, err := r.monitors.ForResource(definitions)
	if err != nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	served := namesIn(r.current.preferred)
	for _, name := range informer.Informer().GetStore().ListKeys() {
		if !served[schema.ParseGroupResource(name)] {
			return false
		}
	}
	return len(r.gone) == 0
}

func (r *resources) refreshOrLog(ctx context.Context) {
	if err := r.refresh(ctx); err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Controllers go on with the resources they know")
	}
}

// refresh asks for discovery and publishes what has changed. Groups that cannot
// be asked, such as those of an unreachable extension server, are left out, as
// upstream does.
func (r *resources) refresh(ctx context.Context) error {
	r.client.Invalidate()
	groups, err := restmapper.GetAPIGroupResources(r.client)
	if err != nil {
		return fmt.Errorf("workload: asking for the API server's resources: %w", err)
	}
	preferred, err := discovery.ServerPreferredResources(r.client)
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return fmt.Errorf("workload: asking for the API server's preferred resources: %w", err)
	}
	r.take(preferred, restmapper.NewDiscoveryRESTMapper(groups))
	return nil
}

// take publishes an answer of discovery if it has changed something. Resources
// whose definition is deleted are gone, also if discovery does not know yet.
func (r *resources) take(preferred []*metav1.APIResourceList, mapper meta.RESTMapper) {
	r.mu.Lock()
	defer r.mu.Unlock()
	served := namesIn(preferred)
	maps.DeleteFunc(r.gone, func(resource schema.GroupResource, _ bool) bool { return !served[resource] })
	preferred, _ = hide(preferred, func(resource schema.GroupResource) bool { return r.gone[resource] })
	next := r.current
	if len(r.deleted) == 0 && reflect.DeepEqual(next.preferred, preferred) {
		return
	}
	next.revision++
	next.preferred, next.mapper = preferred, mapper
	next.withdrawn = maps.Clone(next.withdrawn)
	if next.withdrawn == nil {
		next.withdrawn = map[schema.GroupResource]int{}
	}
	for resource := range r.deleted {
		next.withdrawn[resource] = next.revision
	}
	clear(r.deleted)
	r.current = next
	close(r.next)
	r.next = make(chan struct{})
}

func namesIn(lists []*metav1.APIResourceList) map[schema.GroupResource]bool {
	names := map[schema.GroupResource]bool{}
	hide(lists, func(resource schema.GroupResource) bool {
		names[resource] = true
		return false
	})
	return names
}

// hide returns the lists without some resources, and whether there were any.
func hide(lists []*metav1.APIResourceList, hidden func(schema.GroupResource) bool) (rest []*metav1.APIResourceList, found bool) {
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		kept := slices.DeleteFunc(slices.Clone(list.APIResources), func(resource metav1.APIResource) bool {
			return hidden(schema.GroupResource{Group: gv.Group, Resource: resource.Name})
		})
		if len(kept) < len(list.APIResources) {
			found = true
			list = &metav1.APIResourceList{TypeMeta: list.TypeMeta, GroupVersion: list.GroupVersion, APIResources: kept}
		}
		rest = append(rest, list)
	}
	return rest, found
}

func (r *resources) snapshot() snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current
}

// deletable are the resources whose objects can own and be owned.
func (r *resources) deletable() iter.Seq[schema.GroupVersionResource] {
	lists := discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"delete", "list", "watch"}}, r.snapshot().preferred)
	return func(yield func(schema.GroupVersionResource) bool) {
		for _, list := range lists {
			gv, err := schema.ParseGroupVersion(list.GroupVersion)
			if err != nil {
				continue
			}
			for _, resource := range list.APIResources {
				if !yield(gv.WithResource(resource.Name)) {
					return
				}
			}
		}
	}
}

// Reset is part of meta.ResettableRESTMapper. There is nothing to do: the mapper
// is replaced before anyone learns of a change.
func (r *resources) Reset() {}
