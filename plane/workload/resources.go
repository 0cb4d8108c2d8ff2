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
}

// snapshot is one answer of discovery.
type snapshot struct {
	revision  int
	preferred []*metav1.APIResourceList
	mapper    meta.RESTMapper
	// withdrawn has, for each custom resource whose definition was deleted, the
	// revision that noticed. Who saw an older one must be told that it went, even
	// if it is back.
	withdrawn map[schema.GroupResource]int
}

// newResources asks for discovery once, so that controllers can be built from it.
func newResources(ctx context.Context, client discovery.DiscoveryInterface, monitors *monitors) (*resources, error) {
	r := &resources{
		client:   memory.NewMemCacheClient(client),
		monitors: monitors,
		changed:  make(chan struct{}, 1),
		next:     make(chan struct{}),
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
		AddFunc:    func(any) { r.signal() },
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

// definitionDeleted ends the informers of the resource: their watch has nothing
// to watch any more, and if the resource comes back they would find out only
// after a long back-off.
func (r *resources) definitionDeleted(object any) {
	if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = unknown.Obj
	}
	definition, err := meta.Accessor(object)
	if err != nil {
		return
	}
	resource := schema.ParseGroupResource(definition.GetName())
	r.monitors.forget(resource)

	r.mu.Lock()
	next := r.current
	next.withdrawn = maps.Clone(next.withdrawn)
	if next.withdrawn == nil {
		next.withdrawn = map[schema.GroupResource]int{}
	}
	next.withdrawn[resource] = next.revision + 1
	r.publishLocked(next)
	r.mu.Unlock()
	r.signal()
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

// settle asks for discovery until it has every definition, or for about a second.
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

// complete tells whether every definition is in discovery.
func (r *resources) complete() bool {
	informer, err := r.monitors.ForResource(definitions)
	if err != nil {
		return true
	}
	served := map[string]bool{}
	for _, list := range r.snapshot().preferred {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, resource := range list.APIResources {
			served[schema.GroupResource{Group: gv.Group, Resource: resource.Name}.String()] = true
		}
	}
	for _, name := range informer.Informer().GetStore().ListKeys() {
		if !served[name] {
			return false
		}
	}
	return true
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
	r.mu.Lock()
	defer r.mu.Unlock()
	if next := r.current; !reflect.DeepEqual(next.preferred, preferred) {
		next.preferred = preferred
		next.mapper = restmapper.NewDiscoveryRESTMapper(groups)
		r.publishLocked(next)
	}
	return nil
}

func (r *resources) publishLocked(next snapshot) {
	next.revision++
	r.current = next
	close(r.next)
	r.next = make(chan struct{})
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

// follower gives one consumer the resources again whenever they change.
type follower struct {
	// ServerResourcesInterface is nil: upstream asks for preferred resources only.
	discovery.ServerResourcesInterface
	resources *resources
	ctx       context.Context
	seen      int
	behind    bool // the last answer hid what is back
}

// follow begins to follow; ctx ends the wait for a change. One consumer, one
// goroutine.
func (r *resources) follow(ctx context.Context) *follower {
	return &follower{resources: r, ctx: ctx}
}

// ServerPreferredResources answers at once the first time and from then on waits
// until the answer differs from the one before.
func (f *follower) ServerPreferredResources() ([]*metav1.APIResourceList, error) {
	for {
		f.resources.mu.Lock()
		current, next := f.resources.current, f.resources.next
		f.resources.mu.Unlock()
		if current.revision > f.seen || f.behind {
			return f.advance(current), nil
		}
		select {
		case <-f.ctx.Done():
			return nil, f.ctx.Err()
		case <-next:
		}
	}
}

// advance moves to the snapshot. A resource that went and came back in the
// meantime is hidden once, so that the consumer lets go of what it had for it.
func (f *follower) advance(to snapshot) []*metav1.APIResourceList {
	since := f.seen
	f.seen, f.behind = to.revision, false
	if since == 0 {
		return to.preferred
	}
	var lists []*metav1.APIResourceList
	for _, list := range to.preferred {
		gv, _ := schema.ParseGroupVersion(list.GroupVersion)
		kept := slices.DeleteFunc(slices.Clone(list.APIResources), func(resource metav1.APIResource) bool {
			return to.withdrawn[schema.GroupResource{Group: gv.Group, Resource: resource.Name}] > since
		})
		if len(kept) < len(list.APIResources) {
			f.behind = true
			list = &metav1.APIResourceList{TypeMeta: list.TypeMeta, GroupVersion: list.GroupVersion, APIResources: kept}
		}
		lists = append(lists, list)
	}
	return lists
}

// namespaced is ServerPreferredResources for what lives in namespaces.
func (f *follower) namespaced() ([]*metav1.APIResourceList, error) {
	lists, err := f.ServerPreferredResources()
	return discovery.FilteredBy(discovery.ResourcePredicateFunc(func(_ string, resource *metav1.APIResource) bool {
		return resource.Namespaced
	}), lists), err
}

// lateMapper resolves each call with the newest snapshot.
type lateMapper struct{ resources *resources }

func (m lateMapper) KindFor(resource schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return m.resources.snapshot().mapper.KindFor(resource)
}

func (m lateMapper) KindsFor(resource schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	return m.resources.snapshot().mapper.KindsFor(resource)
}

func (m lateMapper) ResourceFor(input schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	return m.resources.snapshot().mapper.ResourceFor(input)
}

func (m lateMapper) ResourcesFor(input schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	return m.resources.snapshot().mapper.ResourcesFor(input)
}

func (m lateMapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	return m.resources.snapshot().mapper.RESTMapping(kind, versions...)
}

func (m lateMapper) RESTMappings(kind schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	return m.resources.snapshot().mapper.RESTMappings(kind, versions...)
}

func (m lateMapper) ResourceSingularizer(resource string) (string, error) {
	return m.resources.snapshot().mapper.ResourceSingularizer(resource)
}
