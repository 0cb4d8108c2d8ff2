// Package cached measures the cache beside controller-runtime's: memory per object, private reads and lists. Both watch the
// same plane in the same process and hold the same objects; one is dropped before the other is started.
package cached

import (
	"context"
	"fmt"
	goruntime "runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	peercache "sigs.k8s.io/controller-runtime/pkg/cache"
	peer "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/setpoint-dev/setpoint/bench/filled"
	"github.com/setpoint-dev/setpoint/bench/pods"
	"github.com/setpoint-dev/setpoint/bench/report"
	"github.com/setpoint-dev/setpoint/cache"
	"github.com/setpoint-dev/setpoint/client"
)

// reader is a cache under measurement.
type reader struct {
	get      func(types.NamespacedName, *corev1.Pod) error
	list     func(*corev1.PodList) error
	labelled func(*corev1.PodList, string) error
	stop     func()
}

// figures are what one cache needs.
type figures struct {
	bytes                  float64 // of heap per Pod
	get, list, listOfLabel float64 // ns, ns, ns
}

// Measure fills a plane with n Pods and reads them through both caches.
func Measure(ctx context.Context, n int) ([]report.Result, error) {
	p, err := filled.Start(ctx, n)
	if err != nil {
		return nil, err
	}
	defer p.Stop()
	theirs, err := measure(ctx, p.RESTConfig(), n, startPeer)
	if err != nil {
		return nil, fmt.Errorf("controller-runtime's cache: %w", err)
	}
	ours, err := measure(ctx, p.RESTConfig(), n, startOurs)
	if err != nil {
		return nil, fmt.Errorf("the cache: %w", err)
	}
	compressed, err := measure(ctx, p.RESTConfig(), n, startCompressed)
	if err != nil {
		return nil, fmt.Errorf("the cache, compressed: %w", err)
	}
	note := fmt.Sprintf("%d Pods on one plane; peer: controller-runtime's cache", n)
	return []report.Result{
		report.Cost("cache-bytes-per-pod", "bytes", ours.bytes).Against(theirs.bytes, note).AtMost(3200),
		report.Cost("cache-bytes-per-pod-compressed", "bytes", compressed.bytes).
			Against(theirs.bytes, fmt.Sprintf("with Compress, a Get then takes %.1f µs; %s", compressed.get/1e3, note)).AtMost(1200),
		report.Cost("cache-read", "ns", ours.get).Against(theirs.get, "Get of one of "+note).AtLeastRatio(1),
		report.Cost("list-10k", "ms", ours.list/1e6).Against(theirs.list/1e6, "List of all; "+note).AtLeastRatio(1),
		report.Cost("list-100-of-10k", "µs", ours.listOfLabel/1e3).
			Against(theirs.listOfLabel/1e3, fmt.Sprintf("List of %d by label; %s", pods.PerApp, note)).AtLeastRatio(20),
	}, nil
}

func measure(ctx context.Context, config *rest.Config, n int, start func(context.Context, *rest.Config) (reader, error)) (figures, error) {
	before := heap()
	r, err := start(ctx, config)
	if err != nil {
		return figures{}, err
	}
	defer r.stop()
	out := figures{bytes: float64(heap()-before) / float64(n)}

	keys := make([]types.NamespacedName, n)
	for i := range keys {
		keys[i] = client.KeyOf(pods.Pod(i))
	}
	if out.get, err = perCall(func(i int) error { return r.get(keys[i*7919%n], &corev1.Pod{}) }); err != nil {
		return figures{}, err
	}
	if out.list, err = perCall(func(int) error {
		var list corev1.PodList
		if err := r.list(&list); err != nil || len(list.Items) != n {
			return fmt.Errorf("a List gave %d of %d Pods: %w", len(list.Items), n, err)
		}
		return nil
	}); err != nil {
		return figures{}, err
	}
	out.listOfLabel, err = perCall(func(i int) error {
		var list corev1.PodList
		if err := r.labelled(&list, pods.App(i*pods.PerApp%n)); err != nil || len(list.Items) != pods.PerApp {
			return fmt.Errorf("a List by label gave %d of %d Pods: %w", len(list.Items), pods.PerApp, err)
		}
		return nil
	})
	return out, err
}

// perCall returns the nanoseconds of a call, the best of three runs.
func perCall(call func(i int) error) (float64, error) {
	var failed error
	best := 0.0
	for range 3 {
		r := testing.Benchmark(func(b *testing.B) {
			for i := range b.N {
				if err := call(i); err != nil {
					failed = err
					b.FailNow()
				}
			}
		})
		if failed != nil {
			return 0, failed
		}
		if ns := float64(r.T.Nanoseconds()) / float64(r.N); best == 0 || ns < best {
			best = ns
		}
	}
	return best, nil
}

// heap returns the bytes of live objects once garbage and what was about to become garbage are gone.
func heap() uint64 {
	for range 3 {
		goruntime.GC()
		time.Sleep(100 * time.Millisecond) // watches that were just closed let go of their buffers
	}
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return m.HeapAlloc
}

func startOurs(ctx context.Context, config *rest.Config) (reader, error) {
	return startPods(ctx, config, cache.Options{})
}

func startCompressed(ctx context.Context, config *rest.Config) (reader, error) {
	return startPods(ctx, config, cache.Options{Compress: true})
}

func startPods(ctx context.Context, config *rest.Config, options cache.Options) (reader, error) {
	gvk := corev1.SchemeGroupVersion.WithKind("Pod")
	c, stop, err := runOurs(ctx, cache.Config{REST: config, Scheme: clientscheme.Scheme, Default: options}, gvk)
	if err != nil {
		return reader{}, err
	}
	return reader{
		get:  func(key types.NamespacedName, pod *corev1.Pod) error { return c.Get(ctx, gvk, key, pod) },
		list: func(list *corev1.PodList) error { return c.List(ctx, gvk, cache.ListOptions{}, list) },
		labelled: func(list *corev1.PodList, app string) error {
			return c.List(ctx, gvk, cache.ListOptions{Labels: labels.SelectorFromSet(labels.Set{"app": app})}, list)
		},
		stop: stop,
	}, nil
}

// runOurs runs our cache with a watch of one kind, until stop.
func runOurs(ctx context.Context, config cache.Config, gvk schema.GroupVersionKind) (c *cache.Cache, stop func(), err error) {
	if config.HTTP, err = rest.HTTPClientFor(config.REST); err != nil {
		return nil, nil, err
	}
	if config.Mapper == nil {
		if config.Mapper, err = client.NewMapper(config.REST, config.HTTP); err != nil {
			return nil, nil, err
		}
	}
	if c, err = cache.New(config); err != nil {
		return nil, nil, err
	}
	w, err := c.Watch(gvk, nil)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	select {
	case <-w.Synced():
		return c, func() { cancel(); <-ended }, nil
	case err := <-ended:
		cancel()
		return nil, nil, err
	}
}

func startPeer(ctx context.Context, config *rest.Config) (reader, error) {
	c, stop, err := runPeer(ctx, config, peercache.Options{Scheme: clientscheme.Scheme}, &corev1.Pod{})
	if err != nil {
		return reader{}, err
	}
	return reader{
		get:  func(key types.NamespacedName, pod *corev1.Pod) error { return c.Get(ctx, key, pod) },
		list: func(list *corev1.PodList) error { return c.List(ctx, list) },
		labelled: func(list *corev1.PodList, app string) error {
			return c.List(ctx, list, peer.MatchingLabels{"app": app})
		},
		stop: stop,
	}, nil
}

// runPeer runs controller-runtime's cache with an informer of one kind, until stop.
func runPeer(ctx context.Context, config *rest.Config, options peercache.Options, obj peer.Object) (c peercache.Cache, stop func(), err error) {
	c, err = peercache.New(config, options)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	stop = func() { cancel(); <-ended }
	if _, err := c.GetInformer(ctx, obj); err != nil {
		stop()
		return nil, nil, err
	}
	if !c.WaitForCacheSync(ctx) {
		stop()
		return nil, nil, fmt.Errorf("no sync: %w", ctx.Err())
	}
	return c, stop, nil
}
