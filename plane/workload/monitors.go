package workload

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

// monitors gives the controllers that look at every resource an informer for
// each: the shared typed one for kinds that client-go knows, one of metadata only
// for custom resources. Other than upstream's factory it can forget a resource
// that is gone.
type monitors struct {
	typed  informers.SharedInformerFactory
	client metadata.Interface

	mu      sync.Mutex
	custom  map[schema.GroupVersionResource]*monitor
	running sync.WaitGroup
	stopped bool
}

type monitor struct {
	informer informers.GenericInformer
	cancel   context.CancelFunc // nil until it runs
}

func newMonitors(typed informers.SharedInformerFactory, client metadata.Interface) *monitors {
	return &monitors{typed: typed, client: client, custom: map[schema.GroupVersionResource]*monitor{}}
}

// ForResource makes the informer of a resource, or returns the one there is.
func (m *monitors) ForResource(resource schema.GroupVersionResource) (informers.GenericInformer, error) {
	if informer, err := m.typed.ForResource(resource); err == nil {
		return informer, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, ok := m.custom[resource]; ok {
		return known.informer, nil
	}
	informer := metadatainformer.NewFilteredMetadataInformer(m.client, resource, "", 0,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}, nil)
	if err := informer.Informer().SetTransform(dropManagedFields); err != nil {
		return nil, err
	}
	m.custom[resource] = &monitor{informer: informer}
	return informer, nil
}

// Start runs all informers that do not run yet, until stop is closed.
func (m *monitors) Start(stop <-chan struct{}) {
	m.typed.Start(stop)

	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped {
		return
	}
	for _, known := range m.custom {
		if known.cancel != nil {
			continue
		}
		var ctx context.Context
		ctx, known.cancel = context.WithCancel(wait.ContextForChannel(stop))
		m.running.Go(func() { known.informer.Informer().RunWithContext(ctx) })
	}
}

// forget ends the informers of a resource in all its versions. The next
// ForResource makes a new one.
func (m *monitors) forget(resource schema.GroupResource) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for version, known := range m.custom {
		if version.GroupResource() != resource {
			continue
		}
		if known.cancel != nil {
			known.cancel()
		}
		delete(m.custom, version)
	}
}

func (m *monitors) waitForSync(ctx context.Context) bool {
	m.mu.Lock()
	var checkers []cache.DoneChecker
	for _, known := range m.custom {
		checkers = append(checkers, known.informer.Informer().HasSyncedChecker())
	}
	m.mu.Unlock()
	return cache.WaitFor(ctx, "", checkers...)
}

// shutdown starts nothing any more and waits for what runs.
func (m *monitors) shutdown() {
	m.mu.Lock()
	m.stopped = true
	for _, known := range m.custom {
		if known.cancel != nil {
			known.cancel()
		}
	}
	m.mu.Unlock()
	m.running.Wait()
}
