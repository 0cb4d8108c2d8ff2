package cache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/setpoint-dev/setpoint/filter"
)

// ErrNotCached is what a read of a kind gives that nobody watches, or of a namespace outside the kind's
// options, or in a form that is not kept, or while the cache does not run. The reader should ask the server
// instead.
var ErrNotCached = errors.New("not cached")

// Cache is a set of watched kinds. Its methods may be called concurrently.
type Cache struct {
	api     *api
	scheme  *runtime.Scheme
	mapper  meta.RESTMapper
	logger  *slog.Logger
	metrics *metrics
	options func(schema.GroupVersionKind) Options
	owners  map[string]bool

	randMu sync.Mutex
	rand   *rand.Rand

	goroutines sync.WaitGroup // of Run; the counter rises only while state is running

	// mu guards the fields below and those of the kinds. It is taken before any store's.
	mu    sync.RWMutex
	state state
	ctx   context.Context // of Run
	kinds map[schema.GroupVersionKind]*kind
}

type state uint8

const (
	created state = iota
	running
	stopped
)

// kind is what is declared about one kind. It outlives the watch: indexes stay declared.
type kind struct {
	indexes    []fieldIndex
	namespaces *namespaces // of SetNamespaces; nil: those of the options
	users      int
	store      *store             // nil without users
	stop       context.CancelFunc // nil while not running
}

// New returns a Cache that watches nothing yet and sends no request before Run.
func New(cfg Config) (*Cache, error) {
	if cfg.REST == nil {
		return nil, errors.New("cache: Config.REST is missing: give the configuration that reaches the API server")
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.Scheme == nil {
		cfg.Scheme = scheme.Scheme
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Rand == nil {
		cfg.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	if cfg.HTTP == nil {
		var err error
		if cfg.HTTP, err = rest.HTTPClientFor(cfg.REST); err != nil {
			return nil, fmt.Errorf("cache: make an HTTP client: %w", err)
		}
	}
	api, err := newAPI(cfg.REST, cfg.HTTP)
	if err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	if cfg.Mapper == nil {
		if cfg.Mapper, err = newMapper(cfg.REST, cfg.HTTP); err != nil {
			return nil, fmt.Errorf("cache: %w", err)
		}
	}
	owners := map[string]bool{}
	for _, o := range cfg.FieldOwners {
		owners[o] = true
	}
	c := &Cache{
		api:     api,
		scheme:  cfg.Scheme,
		mapper:  cfg.Mapper,
		logger:  cfg.Logger,
		metrics: newMetrics(),
		options: cfg.optionsOf,
		owners:  owners,
		rand:    cfg.Rand,
		kinds:   map[schema.GroupVersionKind]*kind{},
	}
	if err := c.register(cfg.Metrics); err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	return c, nil
}

func (cfg Config) validate() error {
	errs := []error{}
	if err := cfg.Default.validate(); err != nil {
		errs = append(errs, fmt.Errorf("cache: Config.Default: %w", err))
	}
	for kind, o := range cfg.Kinds {
		if err := o.validate(); err != nil {
			errs = append(errs, fmt.Errorf("cache: Config.Kinds: %s: %w", kind, err))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

func (cfg Config) optionsOf(gvk schema.GroupVersionKind) Options {
	o, found := cfg.Kinds[gvk.GroupKind()]
	if !found {
		o = cfg.Default
	}
	o.Namespaces = sortedNames(o.Namespaces)
	if gvk == namespaceKind {
		o.NamespaceSelector = nil
	}
	return o
}

// newMapper discovers kinds when they are first asked for.
func newMapper(cfg *rest.Config, client *http.Client) (meta.RESTMapper, error) {
	d, err := discovery.NewDiscoveryClientForConfigAndClient(cfg, client)
	if err != nil {
		return nil, fmt.Errorf("make a discovery client: %w", err)
	}
	return restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(d)), nil
}

// Run runs the watches until ctx ends, then waits for their goroutines and returns nil. It can be called once.
func (c *Cache) Run(ctx context.Context) error {
	c.mu.Lock()
	if c.state != created {
		c.mu.Unlock()
		return errors.New("cache: Run was called before; make a new Cache")
	}
	c.state, c.ctx = running, ctx
	for _, k := range c.kinds {
		if k.store != nil {
			c.start(k)
		}
	}
	c.mu.Unlock()

	<-ctx.Done()
	c.mu.Lock()
	c.state = stopped
	c.mu.Unlock()
	c.goroutines.Wait()
	return nil
}

// start starts the watch of a kind; mu is held and the cache runs.
func (c *Cache) start(k *kind) {
	ctx, stop := context.WithCancel(c.ctx)
	k.stop = stop
	k.store.start(ctx, c)
}

// Watch declares interest in a kind, before or during Run. The subscriber, if not nil, is called for every
// change, one call at a time, from a goroutine of the watch; nil declares cached reads only. The watch of a
// kind is shared by all that declare it.
func (c *Cache) Watch(gvk schema.GroupVersionKind, subscriber func(filter.Change)) (*Watch, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.watch(gvk, subscriber)
}

// watch is Watch; mu is held.
func (c *Cache) watch(gvk schema.GroupVersionKind, subscriber func(filter.Change)) (*Watch, error) {
	if c.state == stopped {
		return nil, errors.New("cache: it has stopped, nothing can be watched any more")
	}
	k := c.kind(gvk)
	if k.store == nil {
		f, err := c.form(gvk)
		if err != nil {
			return nil, fmt.Errorf("cache: watch %s: %w", gvk.GroupKind(), err)
		}
		s := newStore(c, f, k)
		if selector := s.options.NamespaceSelector; selector != nil {
			follow := func(change filter.Change) { s.namespaceChanged(selector, change) }
			if s.selected, err = c.watch(namespaceKind, follow); err != nil {
				return nil, err
			}
		}
		k.store = s
		if c.state == running {
			c.start(k)
		}
	}
	k.users++
	w := &Watch{cache: c, gvk: gvk, subscriber: newSubscriber(k.store.form, subscriber)}
	w.store.Store(k.store)
	k.store.join(w.subscriber)
	return w, nil
}

// kind returns what is declared about a kind; mu is held.
func (c *Cache) kind(gvk schema.GroupVersionKind) *kind {
	k := c.kinds[gvk]
	if k == nil {
		k = &kind{}
		c.kinds[gvk] = k
	}
	return k
}

func (c *Cache) form(gvk schema.GroupVersionKind) (*form, error) {
	if gvk.Version == "" || gvk.Kind == "" {
		return nil, errors.New("a kind needs a version and a name")
	}
	o := c.options(gvk)
	return newForm(c.scheme, gvk, retention{
		metadataOnly:  o.MetadataOnly,
		managedFields: o.KeepManagedFields,
		owners:        c.owners,
		compressed:    o.Compress,
		transformed:   o.Transform != nil,
	})
}

// Watch is one user's interest in one kind.
type Watch struct {
	cache      *Cache
	gvk        schema.GroupVersionKind
	store      atomic.Pointer[store] // nil once closed, so that a Watch which is kept keeps no objects
	subscriber *subscriber
}

// Synced is closed when the first listing is stored and delivered to this subscriber.
func (w *Watch) Synced() <-chan struct{} { return w.subscriber.synced }

// Err is what the watch last failed with, or nil while it is healthy, and once it is closed.
func (w *Watch) Err() error {
	if s := w.store.Load(); s != nil {
		return s.err()
	}
	return nil
}

// WaitSynced waits for Synced or the end of ctx; then the error says what the watch last failed with.
func (w *Watch) WaitSynced(ctx context.Context) error {
	select {
	case <-w.subscriber.synced:
		return nil
	case <-ctx.Done():
		if s := w.store.Load(); s != nil {
			return s.waitError(ctx, "first listing")
		}
		return fmt.Errorf("waiting for the first listing of %s, whose watch was closed: %w", w.gvk.GroupKind(), context.Cause(ctx))
	}
}

// Close ends the interest. The subscriber is not called again, but a call already running may still be about to
// return. The last Close of a kind stops its watch and frees its objects. Further calls do nothing.
func (w *Watch) Close() {
	s := w.store.Swap(nil)
	if s == nil {
		return
	}
	s.leave(w.subscriber)
	if w.cache.release(w.gvk) && s.selected != nil {
		s.selected.Close()
	}
}

// release counts a user of a kind less. With the last one the kind's watch ends, and it reports true.
func (c *Cache) release(gvk schema.GroupVersionKind) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.kinds[gvk]
	if k.users--; k.users > 0 {
		return false
	}
	k.store = nil
	if k.stop != nil {
		k.stop()
		k.stop = nil
	}
	return true
}

// Index declares a field index by which List can select: fn returns the values of an object (typed if the
// scheme knows the kind, else unstructured; it must not be changed or kept). It is called once for every state
// of an object, as it arrives, which makes every object of the kind be decoded then. Index starts nothing and
// never blocks. It must be declared before the kind is watched.
func (c *Cache) Index(gvk schema.GroupVersionKind, name string, fn func(runtime.Object) []string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.kind(gvk)
	switch {
	case k.store != nil:
		return fmt.Errorf("cache: index %q of %s: the kind is watched already: declare its indexes before", name, gvk.GroupKind())
	case name == "" || name == "metadata.name" || name == "metadata.namespace":
		return fmt.Errorf("cache: index %q of %s: the name is reserved", name, gvk.GroupKind())
	case slices.ContainsFunc(k.indexes, func(x fieldIndex) bool { return x.name == name }):
		return fmt.Errorf("cache: index %q of %s is declared twice", name, gvk.GroupKind())
	}
	k.indexes = append(slices.Clip(k.indexes), fieldIndex{name: name, values: fn})
	return nil
}

// lookup returns the store of a watched kind.
func (c *Cache) lookup(gvk schema.GroupVersionKind) (*store, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	k := c.kinds[gvk]
	switch {
	case k == nil || k.store == nil:
		return nil, fmt.Errorf("%s: %w: nobody watches the kind", gvk.GroupKind(), ErrNotCached)
	case c.state != running:
		return nil, fmt.Errorf("%s: %w: the cache does not run", gvk.GroupKind(), ErrNotCached)
	}
	return k.store, nil
}

// mapping finds the resource of a kind.
func (c *Cache) mapping(gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	mapping, err := c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, fmt.Errorf("find the resource of %s: %w", gvk.GroupKind(), err)
	}
	return mapping, nil
}

// resetMapper makes the mapper discover kinds anew.
func (c *Cache) resetMapper() {
	if m, ok := c.mapper.(meta.ResettableRESTMapper); ok {
		m.Reset()
	}
}
