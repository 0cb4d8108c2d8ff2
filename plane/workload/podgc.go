package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

const (
	// finishedPods is how many finished Pods are kept, as in a default cluster.
	finishedPods = 12500
	// podCollection is the period at which finished Pods are counted, and at the
	// latest that Pods of lost nodes are found.
	podCollection = 20 * time.Second
)

// podCollector deletes Pods whose node is gone, and the oldest finished ones when
// there are too many. Upstream's would bring the kubelet's eviction and container
// statistics into every program that embeds a plane.
type podCollector struct {
	client kubernetes.Interface
	pods   corelisters.PodLister
	nodes  corelisters.NodeLister
	lost   chan struct{} // capacity 1: a node was deleted
}

func buildPodGarbageCollector(_ context.Context, e *environment) ([]loop, error) {
	client, err := e.client("pod-garbage-collector")
	if err != nil {
		return nil, err
	}
	core := e.informers.Core().V1()
	c := &podCollector{client: client, pods: core.Pods().Lister(), nodes: core.Nodes().Lister(), lost: make(chan struct{}, 1)}
	core.Pods().Informer()
	_, err = core.Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		DeleteFunc: func(any) {
			select {
			case c.lost <- struct{}{}:
			default:
			}
		},
	})
	if err != nil {
		return nil, err
	}
	return []loop{c.run}, nil
}

func (c *podCollector) run(ctx context.Context) {
	ticker := time.NewTicker(podCollection)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.lost:
		case <-ticker.C:
		}
		if err := c.collect(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Trying again later")
		}
	}
}

func (c *podCollector) collect(ctx context.Context) error {
	pods, err := c.pods.List(labels.Everything())
	if err != nil {
		return err
	}
	var errs []error
	for _, pod := range pods {
		if gone, err := c.nodeIsGone(ctx, pod.Spec.NodeName); err != nil {
			errs = append(errs, err)
		} else if gone {
			errs = append(errs, c.deleteOrphan(ctx, pod))
		}
	}
	for _, pod := range surplus(pods, finishedPods) {
		errs = append(errs, c.delete(ctx, pod))
	}
	return errors.Join(errs...)
}

// nodeIsGone trusts the cache about nodes that are there and the server about
// those that are not: a Pod may be known before its node.
func (c *podCollector) nodeIsGone(ctx context.Context, name string) (bool, error) {
	if name == "" {
		return false, nil
	}
	if _, err := c.nodes.Get(name); err == nil {
		return false, nil
	}
	_, err := c.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("workload: reading node %s of a Pod: %w", name, err)
	}
	return false, nil
}

// deleteOrphan fails the Pod before it deletes it, for those who count on a final
// phase, such as the Job controller.
func (c *podCollector) deleteOrphan(ctx context.Context, pod *corev1.Pod) error {
	if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
		failed := pod.DeepCopy()
		failed.Status.Phase = corev1.PodFailed
		failed.Status.ObservedGeneration = pod.Generation
		podutil.UpdatePodCondition(&failed.Status, &corev1.PodCondition{
			Type:               corev1.DisruptionTarget,
			ObservedGeneration: pod.Generation,
			Status:             corev1.ConditionTrue,
			Reason:             "DeletionByPodGC",
			Message:            "PodGC: node no longer exists",
		})
		_, err := c.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, failed, metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("workload: failing Pod %s/%s of the lost node %s: %w", pod.Namespace, pod.Name, pod.Spec.NodeName, err)
		}
	}
	return c.delete(ctx, pod)
}

func (c *podCollector) delete(ctx context.Context, pod *corev1.Pod) error {
	options := metav1.NewDeleteOptions(0)
	options.Preconditions = metav1.NewUIDPreconditions(string(pod.UID))
	err := c.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *options)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("workload: deleting Pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// surplus returns the oldest finished Pods beyond the limit.
func surplus(pods []*corev1.Pod, limit int) []*corev1.Pod {
	finished := slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool {
		return pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed || pod.DeletionTimestamp != nil
	})
	if len(finished) <= limit {
		return nil
	}
	slices.SortFunc(finished, func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return finished[:len(finished)-limit]
}
