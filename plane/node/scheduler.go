package node

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	resourcehelpers "k8s.io/component-helpers/resource"
	"k8s.io/component-helpers/storage/ephemeral"
)

// scheduler assigns Pods of the default scheduler to nodes, its own ones or any
// other that is ready. It knows selectors, required affinity to nodes, taints,
// requests and unbound claims; it does not know affinity between Pods, topology
// spread, preferences, priorities and preemption.
type scheduler struct {
	client kubernetes.Interface
	pods   corelisters.PodLister
	nodes  corelisters.NodeLister
	claims corelisters.PersistentVolumeClaimLister
	delays Delays
	events *recorder
	logger *slog.Logger
	queue  workqueue.TypedRateLimitingInterface[cache.ObjectName]

	mu       sync.Mutex
	assigned map[types.UID]assignment
	accounts map[string]*account       // by node
	waiting  map[cache.ObjectName]bool // no node could take them
}

// assignment is a Pod's claim on a node: bound, or about to be.
type assignment struct {
	node     string
	requests corev1.ResourceList
}

// account is what the Pods of one node request.
type account struct {
	pods int
	used corev1.ResourceList
}

func (s *scheduler) podHandlers() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    s.observe,
		UpdateFunc: func(_, object any) { s.observe(object) },
		DeleteFunc: func(object any) {
			if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = unknown.Obj
			}
			if pod, ok := object.(*corev1.Pod); ok {
				s.forget(pod)
			}
		},
	}
}

// wakeHandlers let all waiting Pods try again when something changes that may
// have been in their way.
func (s *scheduler) wakeHandlers() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { s.wake() },
		UpdateFunc: func(any, any) { s.wake() },
	}
}

func (s *scheduler) observe(object any) {
	pod, ok := object.(*corev1.Pod)
	switch {
	case !ok:
	case finished(pod):
		s.release(pod.UID)
	case pod.Spec.NodeName != "":
		s.assign(pod, pod.Spec.NodeName)
	case s.isOurs(pod):
		script, _ := scriptOf(pod, s.delays) // what cannot be read is reported on the node
		if script.schedule != never {
			s.queue.AddAfter(cache.MetaObjectToName(pod), script.schedule)
		}
	}
}

func (s *scheduler) isOurs(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && pod.Spec.SchedulerName == corev1.DefaultSchedulerName &&
		len(pod.Spec.SchedulingGates) == 0 && pod.DeletionTimestamp == nil && !finished(pod)
}

func (s *scheduler) run(ctx context.Context) {
	runQueue(ctx, s.queue, func(key cache.ObjectName) {
		if err := s.sync(ctx, key); err != nil && ctx.Err() == nil {
			s.logger.Error("Pod is not assigned yet, trying again", "pod", key.String(), "error", err)
			s.queue.AddRateLimited(key)
		} else {
			s.queue.Forget(key)
		}
	})
}

func (s *scheduler) sync(ctx context.Context, key cache.ObjectName) error {
	pod, err := s.pods.Pods(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) || err == nil && !s.isOurs(pod) {
		return nil
	}
	if err != nil {
		return err
	}
	node, reason, err := s.decide(pod)
	switch {
	case err != nil:
		return err
	case reason != "":
		return s.reject(ctx, pod, reason)
	case node == "":
		return nil
	}
	if err := s.bind(ctx, pod, node); err != nil {
		s.release(pod.UID)
		return err
	}
	s.events.record(pod, "default-scheduler", "", event{reason: "Scheduled",
		message: fmt.Sprintf("Successfully assigned %s to %s", key, node)})
	return nil
}

// decide picks a node and takes the Pod into its account at once, so that the
// next decision counts it. Neither node nor reason: it was assigned before, and
// the cache does not know yet.
func (s *scheduler) decide(pod *corev1.Pod) (node, reason string, err error) {
	key := cache.MetaObjectToName(pod)
	// Under the lock from the first look on: whoever brings a change that is not
	// seen here finds the Pod among those that wait.
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.assigned[pod.UID]; ok {
		return "", "", nil
	}
	nodes, err := s.nodes.List(labels.Everything())
	if err != nil {
		return "", "", err
	}
	if reason = s.missingClaim(pod); reason == "" {
		candidates := make([]candidate, 0, len(nodes))
		for _, n := range nodes {
			c := candidate{node: n}
			if a := s.accounts[n.Name]; a != nil {
				c.pods, c.used = a.pods, a.used
			}
			candidates = append(candidates, c)
		}
		node, reason = choose(pod, candidates)
	}
	if reason != "" {
		s.waiting[key] = true
		return "", reason, nil
	}
	delete(s.waiting, key)
	s.assignLocked(pod, node)
	return node, "", nil
}

// missingClaim says which claim the Pod must wait for.
func (s *scheduler) missingClaim(pod *corev1.Pod) string {
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		name := ""
		switch {
		case volume.PersistentVolumeClaim != nil:
			name = volume.PersistentVolumeClaim.ClaimName
		case volume.Ephemeral != nil:
			name = ephemeral.VolumeClaimName(pod, volume)
		default:
			continue
		}
		claim, err := s.claims.PersistentVolumeClaims(pod.Namespace).Get(name)
		switch {
		case err != nil:
			return fmt.Sprintf("persistentvolumeclaim %q not found", name)
		case claim.DeletionTimestamp != nil:
			return fmt.Sprintf("persistentvolumeclaim %q is being deleted", name)
		case claim.Status.Phase != corev1.ClaimBound:
			return "pod has unbound immediate PersistentVolumeClaims"
		}
	}
	return ""
}

func (s *scheduler) bind(ctx context.Context, pod *corev1.Pod, node string) error {
	err := s.client.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		s.release(pod.UID)
		return nil
	}
	if err != nil {
		return fmt.Errorf("node: binding Pod %s/%s to node %s: %w", pod.Namespace, pod.Name, node, err)
	}
	return nil
}

// reject tells in the Pod's condition, and in an Event, why it has no node.
func (s *scheduler) reject(ctx context.Context, pod *corev1.Pod, reason string) error {
	known := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
	if known >= 0 && pod.Status.Conditions[known].Message == reason {
		return nil
	}
	status := pod.Status.DeepCopy()
	condition := corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		Message: reason, ObservedGeneration: pod.Generation, LastTransitionTime: metav1.Now(),
	}
	if known < 0 {
		status.Conditions = append(status.Conditions, condition)
	} else {
		status.Conditions[known] = condition
	}
	rejected := *pod
	rejected.Status = *status
	_, err := s.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, &rejected, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("node: writing the condition of Pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	s.events.record(pod, "default-scheduler", "", event{warning: true, reason: "FailedScheduling", message: reason})
	return nil
}

func (s *scheduler) assign(pod *corev1.Pod, node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, cache.MetaObjectToName(pod))
	if s.assigned[pod.UID].node != node {
		s.releaseLocked(pod.UID)
		s.assignLocked(pod, node)
	}
}

func (s *scheduler) assignLocked(pod *corev1.Pod, node string) {
	a := assignment{node: node, requests: resourcehelpers.PodRequests(pod, resourcehelpers.PodResourcesOptions{})}
	s.assigned[pod.UID] = a
	if s.accounts[node] == nil {
		s.accounts[node] = &account{used: corev1.ResourceList{}}
	}
	s.accounts[node].pods++
	add(s.accounts[node].used, a.requests)
}

// release takes the Pod out of its node's account; others may have room now.
func (s *scheduler) release(uid types.UID) {
	s.mu.Lock()
	released := s.releaseLocked(uid)
	s.mu.Unlock()
	if released {
		s.wake()
	}
}

func (s *scheduler) releaseLocked(uid types.UID) bool {
	a, ok := s.assigned[uid]
	if !ok {
		return false
	}
	delete(s.assigned, uid)
	s.accounts[a.node].pods--
	subtract(s.accounts[a.node].used, a.requests)
	return true
}

func (s *scheduler) forget(pod *corev1.Pod) {
	s.mu.Lock()
	delete(s.waiting, cache.MetaObjectToName(pod))
	s.mu.Unlock()
	s.release(pod.UID)
}

func (s *scheduler) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	byName := func(a, b cache.ObjectName) int { return strings.Compare(a.String(), b.String()) }
	for _, key := range slices.SortedFunc(maps.Keys(s.waiting), byName) {
		s.queue.Add(key)
	}
}
