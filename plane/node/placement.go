package node

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcehelpers "k8s.io/component-helpers/resource"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// candidate is a node as placement sees it.
type candidate struct {
	node *corev1.Node
	pods int                 // assigned to it and not finished
	used corev1.ResourceList // what they request
}

// choose picks the node with the fewest Pods, by name among equals, of those that
// can take the Pod. If none can, reason says why in the scheduler's words.
func choose(pod *corev1.Pod, nodes []candidate) (name, reason string) {
	affinity := nodeaffinity.GetRequiredNodeAffinity(pod)
	requests := resourcehelpers.PodRequests(pod, resourcehelpers.PodResourcesOptions{})
	var best *candidate
	reasons := map[string]int{}
	for i := range nodes {
		if why := unfit(pod, affinity, requests, &nodes[i]); why != "" {
			reasons[why]++
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(nodes[i].pods, best.pods), strings.Compare(nodes[i].node.Name, best.node.Name)) < 0 {
			best = &nodes[i]
		}
	}
	if best != nil {
		return best.node.Name, ""
	}
	if len(nodes) == 0 {
		return "", "no nodes available to schedule pods"
	}
	var parts []string
	for _, why := range slices.Sorted(maps.Keys(reasons)) {
		parts = append(parts, fmt.Sprintf("%d %s", reasons[why], why))
	}
	return "", fmt.Sprintf("0/%d nodes are available: %s.", len(nodes), strings.Join(parts, ", "))
}

// unfit says why the node cannot take the Pod; empty if it can.
func unfit(pod *corev1.Pod, affinity nodeaffinity.RequiredNodeAffinity, requests corev1.ResourceList, c *candidate) string {
	if c.node.Spec.Unschedulable && !tolerates(pod, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}) {
		return "node(s) were unschedulable"
	}
	if !isReady(c.node) {
		return "node(s) were not ready"
	}
	if matches, err := affinity.Match(c.node); err != nil || !matches {
		return "node(s) didn't match Pod's node affinity/selector"
	}
	for _, taint := range c.node.Spec.Taints {
		if taint.Effect != corev1.TaintEffectPreferNoSchedule && !tolerates(pod, taint) {
			return fmt.Sprintf("node(s) had untolerated taint(s) {%s: %s}", taint.Key, taint.Value)
		}
	}
	if limit := c.node.Status.Allocatable.Pods(); int64(c.pods) >= limit.Value() {
		return "Too many pods"
	}
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		request, free := requests[name], c.node.Status.Allocatable[name].DeepCopy()
		free.Sub(c.used[name])
		if !request.IsZero() && request.Cmp(free) > 0 {
			return "Insufficient " + string(name)
		}
	}
	return ""
}

func tolerates(pod *corev1.Pod, taint corev1.Taint) bool {
	return schedulingv1.TolerationsTolerateTaint(klog.Background(), pod.Spec.Tolerations, &taint, true)
}

func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// add and subtract keep a node's account of requests.
func add(total, requests corev1.ResourceList) {
	for name, request := range requests {
		sum := total[name]
		sum.Add(request)
		total[name] = sum
	}
}

func subtract(total, requests corev1.ResourceList) {
	for name, request := range requests {
		rest := total[name]
		rest.Sub(request)
		total[name] = rest
	}
}
