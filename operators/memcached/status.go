package memcached

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/condition"
	v1 "github.com/setpoint-dev/setpoint/operators/memcached/v1"
)

// patience is for how long nothing may move before a Memcached that is not what it should be counts as stuck.
const patience = 10 * time.Minute

// statusOf returns the status of mc after a reconcile, with the Pods that carry its label, and when to look again although
// nothing happens, zero for never. What did not change is taken over from the status before, times included.
func statusOf(mc *v1.Memcached, o outcome, pods []corev1.Pod, now time.Time) (v1.MemcachedStatus, time.Duration) {
	nodes := nodesOf(o.nodes, pods)
	status := *mc.Status.DeepCopy()
	status.ObservedGeneration = mc.Generation
	status.Selector = selector(mc)
	status.Nodes, status.Replicas, status.ReadyReplicas = nil, int32(len(nodes)), 0
	for _, pod := range nodes {
		status.Nodes = append(status.Nodes, pod.Name)
		if ready(pod) {
			status.ReadyReplicas++
		}
	}
	v := judge(mc, o, nodes, now)
	for _, c := range []struct {
		kind  string
		holds bool
	}{
		{v1.ConditionAvailable, available(mc, o, status.ReadyReplicas)},
		{v1.ConditionProgressing, v.progressing},
		{v1.ConditionDegraded, v.degraded},
	} {
		value := metav1.ConditionFalse
		if c.holds {
			value = metav1.ConditionTrue
		}
		condition.Set(&status.Conditions, metav1.Condition{
			Type: c.kind, Status: value, Reason: v.reason, Message: v.message, ObservedGeneration: mc.Generation,
		})
	}
	return status, v.again
}

// available reports whether clients are served: they find the nodes, and no more than one of them is not ready.
func available(mc *v1.Memcached, o outcome, ready int32) bool {
	size := *complete(mc.Spec).Size
	return !o.deleting && o.service.there && (size == 0 && o.set.there || size > 0 && ready >= max(size-1, 1))
}

// verdict is why the conditions of a Memcached are what they are.
type verdict struct {
	progressing, degraded bool
	reason, message       string
	again                 time.Duration
}

// judge says how mc is doing. Its messages hold no number that moves while nodes come up, so that they cost no write.
func judge(mc *v1.Memcached, o outcome, nodes []corev1.Pod, now time.Time) verdict {
	if o.deleting {
		return verdict{progressing: true, reason: v1.ReasonDeleting, message: "The nodes are being stopped."}
	}
	for _, c := range o.children() {
		switch c.standing {
		case strange:
			return verdict{degraded: true, reason: v1.ReasonNameTaken, message: c.problem}
		case rejected:
			return verdict{degraded: true, reason: v1.ReasonRejected, message: c.problem}
		}
	}
	for _, c := range o.children() {
		if c.standing == ending {
			return verdict{progressing: true, reason: v1.ReasonChildDeleting,
				message: fmt.Sprintf("%s %q is being deleted; a new one follows when it is gone.", c.kind, mc.Name)}
		}
	}
	return rollout(mc, o, nodes, now)
}

// rollout is the verdict on a Memcached whose objects are all its own and as wanted.
func rollout(mc *v1.Memcached, o outcome, nodes []corev1.Pod, now time.Time) verdict {
	size := *complete(mc.Spec).Size
	set := o.nodes.Status
	seen := set.ObservedGeneration >= o.nodes.Generation
	var unready, failures []string
	for _, pod := range nodes {
		if ready(pod) {
			continue
		}
		unready = append(unready, fmt.Sprintf("%q", pod.Name))
		if why := failureOf(pod); why != "" {
			failures = append(failures, why)
		}
	}
	switch {
	case seen && set.Replicas == size && set.ReadyReplicas == size && set.UpdatedReplicas == size && len(nodes) == int(size) && len(unready) == 0:
		return done(size)
	case len(failures) > 0:
		return verdict{degraded: true, reason: v1.ReasonNodeFailing,
			message: "Look at the Pod, or change the Memcached: " + strings.Join(failures, "; ") + "."}
	}
	moved := lastMove(nodes)
	if c, _ := condition.Get(mc.Status.Conditions, v1.ConditionProgressing); c.Status == metav1.ConditionTrue && c.LastTransitionTime.After(moved) {
		moved = c.LastTransitionTime.Time
	}
	wait := patience - now.Sub(moved)
	if !seen || moved.IsZero() {
		wait = patience // it is yet to begin
	}
	if wait <= 0 {
		what := fmt.Sprintf("fewer than %d nodes can be made", size)
		if len(unready) > 0 {
			what = "not ready: " + strings.Join(unready, ", ")
		}
		return verdict{degraded: true, reason: v1.ReasonNoProgress, message: fmt.Sprintf(
			"Nothing has moved for %v (%s); look at the Events of StatefulSet %q and its Pods.", patience, what, mc.Name)}
	}
	return verdict{progressing: true, reason: v1.ReasonRollingOut, again: wait,
		message: fmt.Sprintf("StatefulSet %q is on its way to %d nodes.", mc.Name, size)}
}

// done is the verdict on a Memcached that is what it should be.
func done(size int32) verdict {
	if size == 0 {
		return verdict{reason: v1.ReasonScaledToZero, message: "There are no nodes, as asked for."}
	}
	return verdict{reason: v1.ReasonReady, message: "All nodes are ready and up to date."}
}
