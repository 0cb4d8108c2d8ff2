package node

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// workers is how many Pods the agent, and the scheduler, handle at once. The work
// is the API server's, on the same processors.
const workers = 4

// agent plays the kubelet of every fake node: it takes the Pods of its nodes
// through their lives. Decisions are advance's; this is the reading and writing.
type agent struct {
	client    kubernetes.Interface
	pods      corelisters.PodLister
	hosts     map[string]string // node name → address
	delays    Delays
	addresses *addresses
	events    *recorder
	logger    *slog.Logger
	queue     workqueue.TypedRateLimitingInterface[cache.ObjectName]

	mu    sync.Mutex
	known map[types.UID]*resident
}

// resident is what the agent keeps about one Pod. Only the worker that has the
// Pod's key touches it.
type resident struct {
	memory  memory
	podIP   string
	written string // resourceVersion of our last write: an older Pod is a stale one
	script  error  // the last one reported
}

// podHandlers feeds the queue.
func (a *agent) podHandlers() cache.ResourceEventHandler {
	enqueue := func(object any) {
		if pod, ok := object.(*corev1.Pod); ok && a.isOurs(pod) {
			a.queue.Add(cache.MetaObjectToName(pod))
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			// Before the first Pod gets an address, all those in use are known.
			if pod, ok := object.(*corev1.Pod); ok && pod.Status.PodIP != "" {
				a.addresses.keep(pod.Status.PodIP)
			}
			enqueue(object)
		},
		UpdateFunc: func(_, object any) { enqueue(object) },
		DeleteFunc: func(object any) {
			if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = unknown.Obj
			}
			if pod, ok := object.(*corev1.Pod); ok {
				a.forget(pod.UID)
			}
		},
	}
}

func (a *agent) isOurs(pod *corev1.Pod) bool {
	_, ours := a.hosts[pod.Spec.NodeName]
	return ours
}

func (a *agent) run(ctx context.Context) {
	runQueue(ctx, a.queue, func(key cache.ObjectName) {
		if err := a.sync(ctx, key); err != nil && ctx.Err() == nil {
			a.logger.Error("Pod does not go on, trying again", "pod", key.String(), "error", err)
			a.queue.AddRateLimited(key)
		} else {
			a.queue.Forget(key)
		}
	})
}

// runQueue works the queue off until ctx ends.
func runQueue(ctx context.Context, queue workqueue.TypedRateLimitingInterface[cache.ObjectName], handle func(cache.ObjectName)) {
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for {
				key, shutdown := queue.Get()
				if shutdown {
					return
				}
				handle(key)
				queue.Done(key)
			}
		})
	}
	<-ctx.Done()
	queue.ShutDown()
	group.Wait()
}

// sync takes one Pod through what is due. A write that another one overtook is
// not repeated: the newer Pod is on its way here.
func (a *agent) sync(ctx context.Context, key cache.ObjectName) error {
	pod, err := a.pods.Pods(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) || err == nil && !a.isOurs(pod) {
		return nil
	}
	if err != nil {
		return err
	}
	r := a.resident(pod)
	if isOlder(pod.ResourceVersion, r.written) {
		return nil
	}
	script, err := scriptOf(pod, a.delays)
	a.reportScript(pod, r, err)

	o := advance(pod, place{hostIP: a.hosts[pod.Spec.NodeName], podIP: r.podIP}, script, r.memory, time.Now())
	if !equality.Semantic.DeepEqual(o.status, pod.Status) {
		written, err := a.write(ctx, pod, o.status)
		if err != nil || written == "" {
			return err
		}
		r.written = written
		for _, e := range o.events {
			a.events.record(pod, "kubelet", pod.Spec.NodeName, e)
		}
	}
	r.memory = o.memory
	if o.stopped {
		return a.remove(ctx, pod)
	}
	if !o.next.IsZero() {
		a.queue.AddAfter(key, time.Until(o.next))
	}
	return nil
}

// isOlder tells whether version a is before b. An empty b is before all.
func isOlder(a, b string) bool {
	if b == "" {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

// write puts the status and returns the new resourceVersion; none when the Pod has
// changed or gone in the meantime.
func (a *agent) write(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus) (string, error) {
	changed := *pod
	changed.Status = status
	written, err := a.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, &changed, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("node: writing the status of Pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return written.ResourceVersion, nil
}

// remove deletes a Pod of which nothing runs any more. One that stays for its
// finalizers has been through here.
func (a *agent) remove(ctx context.Context, pod *corev1.Pod) error {
	if grace := pod.DeletionGracePeriodSeconds; grace != nil && *grace == 0 {
		return nil
	}
	options := metav1.NewDeleteOptions(0)
	options.Preconditions = metav1.NewUIDPreconditions(string(pod.UID))
	err := a.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *options)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("node: deleting stopped Pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// resident finds what is kept about the Pod, or begins to keep it.
func (a *agent) resident(pod *corev1.Pod) *resident {
	a.mu.Lock()
	defer a.mu.Unlock()
	r, ok := a.known[pod.UID]
	if !ok {
		r = &resident{podIP: pod.Status.PodIP}
		switch {
		case pod.Spec.HostNetwork:
			r.podIP = a.hosts[pod.Spec.NodeName]
		case r.podIP == "":
			r.podIP = a.addresses.take()
		}
		a.known[pod.UID] = r
	}
	return r
}

func (a *agent) forget(uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r, ok := a.known[uid]; ok {
		a.addresses.release(r.podIP)
		delete(a.known, uid)
	}
}

// reportScript says once what cannot be read of a Pod's annotations.
func (a *agent) reportScript(pod *corev1.Pod, r *resident, err error) {
	if err != nil && (r.script == nil || r.script.Error() != err.Error()) {
		a.events.record(pod, "kubelet", pod.Spec.NodeName, event{warning: true, reason: "InvalidScript", message: err.Error()})
	}
	r.script = err
}
