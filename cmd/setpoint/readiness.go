package main

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// readiness is how far an object is on its way to what its spec asks for.
type readiness struct {
	ready bool
	text  string // a few words for people
}

// judge tells from an object alone whether it is ready. A kind that it does not know is ready when its condition Ready
// (or Available) says so; when it has none, once it exists, or, where somebody reports on the kind, once its status has
// been written.
func judge(o *unstructured.Unstructured, reported bool) readiness {
	if o.GetDeletionTimestamp() != nil {
		return readiness{false, "being deleted"}
	}
	if observed, ok := number(o, "status", "observedGeneration"); ok && observed < o.GetGeneration() {
		return readiness{false, "not seen by its controller yet"}
	}
	switch o.GroupVersionKind().GroupKind() {
	case crdKind:
		return byCondition(o, "Established")
	case namespaceKind:
		phase := text(o, "status", "phase")
		return readiness{phase == "Active", strings.ToLower(phase)}
	case schema.GroupKind{Group: "apps", Kind: "Deployment"}:
		return judgeReplicas(o, "updatedReplicas", "availableReplicas")
	case schema.GroupKind{Group: "apps", Kind: "StatefulSet"}:
		return judgeReplicas(o, "updatedReplicas", "availableReplicas")
	case schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}:
		return judgeReplicas(o, "replicas", "availableReplicas")
	case schema.GroupKind{Group: "apps", Kind: "DaemonSet"}:
		return judgeDaemonSet(o)
	case schema.GroupKind{Group: "batch", Kind: "Job"}:
		return judgeJob(o)
	case schema.GroupKind{Kind: "Pod"}:
		return judgePod(o)
	case schema.GroupKind{Kind: "PersistentVolumeClaim"}:
		phase := text(o, "status", "phase")
		return readiness{phase == "Bound", strings.ToLower(phase)}
	}
	return judgeOther(o, reported)
}

// judgeReplicas judges a kind with spec.replicas by two counts of its status.
func judgeReplicas(o *unstructured.Unstructured, made, available string) readiness {
	want, ok := number(o, "spec", "replicas")
	if !ok {
		want = 1
	}
	all, _ := number(o, "status", "replicas")
	have, _ := number(o, "status", made)
	up, _ := number(o, "status", available)
	_, seen := number(o, "status", "observedGeneration")
	ready := seen && all == want && have == want && up == want
	return readiness{ready, fmt.Sprintf("%d of %d available", up, want)}
}

func judgeDaemonSet(o *unstructured.Unstructured) readiness {
	want, seen := number(o, "status", "desiredNumberScheduled")
	updated, _ := number(o, "status", "updatedNumberScheduled")
	up, _ := number(o, "status", "numberAvailable")
	return readiness{seen && updated == want && up == want, fmt.Sprintf("%d of %d available", up, want)}
}

func judgeJob(o *unstructured.Unstructured) readiness {
	want, ok := number(o, "spec", "completions")
	if !ok {
		want = 1
	}
	succeeded, _ := number(o, "status", "succeeded")
	if c := condition(o, "Failed"); c != nil && c["status"] == "True" {
		return readiness{false, "failed: " + describe(c)}
	}
	return readiness{conditionHolds(o, "Complete"), fmt.Sprintf("%d of %d completed", succeeded, want)}
}

func judgePod(o *unstructured.Unstructured) readiness {
	phase := text(o, "status", "phase")
	if phase == "Succeeded" || conditionHolds(o, "Ready") {
		return readiness{true, strings.ToLower(phase)}
	}
	statuses, _, _ := unstructured.NestedSlice(o.Object, "status", "containerStatuses")
	for _, s := range statuses {
		if s, ok := s.(map[string]any); ok {
			if reason, _, _ := unstructured.NestedString(s, "state", "waiting", "reason"); reason != "" {
				return readiness{false, reason}
			}
		}
	}
	return readiness{false, strings.ToLower(phase)}
}

// judgeOther judges a kind that nothing is known of.
func judgeOther(o *unstructured.Unstructured, reported bool) readiness {
	for _, kind := range []string{"Ready", "Available"} {
		if condition(o, kind) != nil {
			return byCondition(o, kind)
		}
	}
	if status, _, _ := unstructured.NestedMap(o.Object, "status"); reported && len(status) == 0 {
		return readiness{false, "waits for its operator"}
	}
	return readiness{true, "exists"}
}

// byCondition judges an object by one of its conditions.
func byCondition(o *unstructured.Unstructured, kind string) readiness {
	c := condition(o, kind)
	if c == nil {
		return readiness{false, "not " + strings.ToLower(kind) + " yet"}
	}
	if observed, ok := c["observedGeneration"].(int64); ok && observed < o.GetGeneration() {
		return readiness{false, "not seen by its controller yet"}
	}
	if c["status"] == "True" {
		return readiness{true, strings.ToLower(kind)}
	}
	return readiness{false, describe(c)}
}

// describe puts a condition's reason and message in a line.
func describe(c map[string]any) string {
	reason, _ := c["reason"].(string)
	message, _ := c["message"].(string)
	return strings.TrimSuffix(strings.TrimPrefix(reason+": "+message, ": "), ": ")
}

func conditionHolds(o *unstructured.Unstructured, kind string) bool {
	c := condition(o, kind)
	return c != nil && c["status"] == "True"
}

// condition returns a condition of o's status, or nil.
func condition(o *unstructured.Unstructured, kind string) map[string]any {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range all {
		if c, ok := c.(map[string]any); ok && c["type"] == kind {
			return c
		}
	}
	return nil
}

func number(o *unstructured.Unstructured, path ...string) (int64, bool) {
	n, ok, err := unstructured.NestedInt64(o.Object, path...)
	return n, ok && err == nil
}

func text(o *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(o.Object, path...)
	return s
}
