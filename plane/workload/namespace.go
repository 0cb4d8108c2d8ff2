package workload

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/namespace/deletion"
)

const (
	// lastCreates is the time left to requests that were admitted before the
	// server's admission learned that the namespace is going. Both are in this
	// process, a notification apart.
	lastCreates = 25 * time.Millisecond
	// A namespace whose content is not gone yet, such as Pods that take their grace
	// period, is looked at again after firstLook, doubled up to lastLook.
	firstLook = 25 * time.Millisecond
	lastLook  = 2 * time.Second
)

// namespaceController empties and finalizes deleted namespaces. The work is
// upstream's deleter; upstream's controller around it waits five seconds before
// it begins, and whole seconds between two looks.
type namespaceController struct {
	deleter deletion.NamespacedResourcesDeleterInterface
	queue   workqueue.TypedRateLimitingInterface[string]
}

func buildNamespace(ctx context.Context, e *environment) ([]loop, error) {
	const name = "namespace-controller"
	client, err := e.client(name)
	if err != nil {
		return nil, err
	}
	metadataClient, err := e.metadataClient(name)
	if err != nil {
		return nil, err
	}
	// The deleter ends the process when its first question for resources has no
	// answer, so that one is answered from what is known. Later ones ask the
	// server: a resource that is missed leaves its objects behind for good.
	known := e.resources.follow(ctx).namespaced
	discover := func() ([]*metav1.APIResourceList, error) {
		if known != nil {
			answer := known
			known = nil
			return answer()
		}
		return client.Discovery().ServerPreferredNamespacedResources()
	}
	c := &namespaceController{
		deleter: deletion.NewNamespacedResourcesDeleter(ctx, client.CoreV1().Namespaces(), metadataClient, client.CoreV1(), discover, corev1.FinalizerKubernetes),
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstLook, lastLook),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: "namespace"},
		),
	}
	_, err = e.informers.Core().V1().Namespaces().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    c.enqueue,
		UpdateFunc: func(_, object any) { c.enqueue(object) },
	})
	if err != nil {
		return nil, err
	}
	return []loop{c.run}, nil
}

func (c *namespaceController) enqueue(object any) {
	if namespace, ok := object.(*corev1.Namespace); ok && namespace.DeletionTimestamp != nil {
		c.queue.AddAfter(namespace.Name, lastCreates)
	}
}

func (c *namespaceController) run(ctx context.Context) {
	var group sync.WaitGroup
	for range workers {
		group.Go(func() { c.work(ctx) })
	}
	<-ctx.Done()
	c.queue.ShutDown()
	group.Wait()
}

func (c *namespaceController) work(ctx context.Context) {
	for {
		name, shutdown := c.queue.Get()
		if shutdown {
			return
		}
		err := c.deleter.Delete(ctx, name)
		var remaining *deletion.ResourcesRemainingError
		switch {
		case err == nil:
			c.queue.Forget(name)
		case errors.As(err, &remaining):
			c.queue.AddRateLimited(name)
		default:
			klog.FromContext(ctx).Error(err, "Namespace is not gone yet, trying again", "namespace", name)
			c.queue.AddRateLimited(name)
		}
		c.queue.Done(name)
	}
}
