package client

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/util/flowcontrol"
)

// A kind that does not exist must not turn every lookup into two requests: the server is asked
// again at most this often.
const (
	discoveriesPerSecond = 2
	discoveriesAtOnce    = 20
)

// discoveryTimeout bounds each request of discovery. Lookups have no context, and those of kinds that are not known yet
// wait for one another.
const discoveryTimeout = 30 * time.Second

// NewMapper returns a mapper of kinds to resources that asks the server when it is first used, and
// again (a bounded number of times per second) when it does not know a kind, so that it finds
// custom resources that are installed later. A request that gets no answer fails
// after half a minute. It may be shared, and has a Reset method. HTTP may be nil; else it must have
// been made from config.
func NewMapper(config *rest.Config, http *http.Client) (meta.RESTMapper, error) {
	config = unlimited(config)
	if http == nil {
		var err error
		if http, err = rest.HTTPClientFor(config); err != nil {
			return nil, fmt.Errorf("HTTP client for discovery: %w", err)
		}
	}
	bounded := *http
	if bounded.Timeout == 0 {
		bounded.Timeout = discoveryTimeout
	}
	api, err := discovery.NewDiscoveryClientForConfigAndClient(config, &bounded)
	if err != nil {
		return nil, fmt.Errorf("discovery client: %w", err)
	}
	return &mapper{
		DeferredDiscoveryRESTMapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(api)),
		limit:                       flowcontrol.NewTokenBucketRateLimiter(discoveriesPerSecond, discoveriesAtOnce),
		known:                       map[schema.GroupVersionKind]*meta.RESTMapping{},
	}, nil
}

// mapper makes client-go's mapper ask again. That one never does so by itself over a cache in
// memory, because such a cache calls itself fresh.
type mapper struct {
	*restmapper.DeferredDiscoveryRESTMapper
	limit flowcontrol.RateLimiter

	mu    sync.Mutex
	known map[schema.GroupVersionKind]*meta.RESTMapping // what was looked up, until the next reset
	reset int                                           // how often discovery was dropped
}

// Reset makes the next lookup ask the server.
func (m *mapper) Reset() {
	// This may wait for a discovery under way, so no lock of ours is held.
	m.DeferredDiscoveryRESTMapper.Reset()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reset++
	clear(m.known)
}

// again reports whether a lookup that failed is worth repeating: because discovery was dropped
// since it began, or now is.
func (m *mapper) again(err error, seen int) bool {
	if !meta.IsNoMatchError(err) {
		return false
	}
	if !m.mayReset(seen) {
		return m.resets() != seen
	}
	m.Reset()
	return true
}

// mayReset grants a reset to one of those whose lookups failed since the last one.
func (m *mapper) mayReset(seen int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reset != seen || !m.limit.TryAccept() {
		return false
	}
	m.reset++
	return true
}

func (m *mapper) resets() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.reset
}

// retry looks up once, and once more when that may give another answer.
func retry[T any](m *mapper, look func() (T, error)) (T, error) {
	seen := m.resets()
	found, err := look()
	if err != nil && m.again(err, seen) {
		return look()
	}
	return found, err
}

func (m *mapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if len(versions) != 1 {
		return retry(m, func() (*meta.RESTMapping, error) {
			return m.DeferredDiscoveryRESTMapper.RESTMapping(gk, versions...)
		})
	}
	gvk := gk.WithVersion(versions[0])
	if mapping, ok := m.lookup(gvk); ok {
		return mapping, nil
	}
	seen := m.resets()
	mapping, err := retry(m, func() (*meta.RESTMapping, error) {
		seen = m.resets()
		return m.DeferredDiscoveryRESTMapper.RESTMapping(gk, gvk.Version)
	})
	if err == nil {
		m.remember(gvk, mapping, seen)
	}
	return mapping, err
}

func (m *mapper) lookup(gvk schema.GroupVersionKind) (*meta.RESTMapping, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mapping, ok := m.known[gvk]
	return mapping, ok
}

func (m *mapper) remember(gvk schema.GroupVersionKind, mapping *meta.RESTMapping, seen int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reset == seen {
		m.known[gvk] = mapping
	}
}

func (m *mapper) RESTMappings(gk schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	return retry(m, func() ([]*meta.RESTMapping, error) {
		return m.DeferredDiscoveryRESTMapper.RESTMappings(gk, versions...)
	})
}

func (m *mapper) KindFor(resource schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return retry(m, func() (schema.GroupVersionKind, error) {
		return m.DeferredDiscoveryRESTMapper.KindFor(resource)
	})
}

func (m *mapper) KindsFor(resource schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	return retry(m, func() ([]schema.GroupVersionKind, error) {
		return m.DeferredDiscoveryRESTMapper.KindsFor(resource)
	})
}

func (m *mapper) ResourceFor(resource schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	return retry(m, func() (schema.GroupVersionResource, error) {
		return m.DeferredDiscoveryRESTMapper.ResourceFor(resource)
	})
}

func (m *mapper) ResourcesFor(resource schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	return retry(m, func() ([]schema.GroupVersionResource, error) {
		return m.DeferredDiscoveryRESTMapper.ResourcesFor(resource)
	})
}

// unlimited is the config without client-side rate limit, unless it sets one: the server's
// priority and fairness does that job.
func unlimited(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	if config.QPS == 0 && config.RateLimiter == nil {
		config.QPS = -1
	}
	return config
}
