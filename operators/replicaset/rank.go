package replicaset

import (
	"cmp"
	"math/bits"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// surplus returns the n Pods that are to be deleted. crowd is how many Pods of the same workload run on each node.
func surplus(pods []*corev1.Pod, n int, crowd map[string]int, now time.Time) []*corev1.Pod {
	ordered := slices.Clone(pods)
	if n >= len(ordered) {
		return ordered
	}
	slices.SortFunc(ordered, func(a, b *corev1.Pod) int { return compare(a, b, crowd, now) })
	return ordered[:n]
}

// compare orders Pods by how little is lost with them: first those that run nowhere yet, that have not started, that are not
// ready, of a lower deletion cost (controller.kubernetes.io/pod-deletion-cost), on a node with more Pods of the workload,
// that became ready later, whose containers, then sidecars, restarted more often, that were created later. Times are compared by magnitude only, so that
// among Pods of about one age the choice is arbitrary and spreads over zones. These are the rules of Kubernetes' controller.
func compare(a, b *corev1.Pod, crowd map[string]int, now time.Time) int {
	return cmp.Or(
		compareBool(a.Spec.NodeName != "", b.Spec.NodeName != ""),
		cmp.Compare(progress(a), progress(b)),
		compareBool(ready(a), ready(b)),
		cmp.Compare(deletionCost(a), deletionCost(b)),
		cmp.Compare(crowd[b.Spec.NodeName], crowd[a.Spec.NodeName]),
		compareAge(a, b, readySince, now),
		cmp.Compare(restarts(b.Status.ContainerStatuses), restarts(a.Status.ContainerStatuses)),
		cmp.Compare(restarts(sidecars(b)), restarts(sidecars(a))),
		compareAge(a, b, func(pod *corev1.Pod) metav1.Time { return pod.CreationTimestamp }, now),
		cmp.Compare(a.Name, b.Name),
	)
}

// compareBool orders what is not before what is.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// compareAge orders younger before older, where a time that is not set is the youngest. Equal magnitudes are told apart by
// UID, unless the times are the same.
func compareAge(a, b *corev1.Pod, since func(*corev1.Pod) metav1.Time, now time.Time) int {
	ta, tb := since(a), since(b)
	if ta.Equal(&tb) {
		return 0
	}
	return cmp.Or(cmp.Compare(magnitude(ta, now), magnitude(tb, now)), cmp.Compare(a.UID, b.UID))
}

// magnitude is the number of binary digits of the time since t; -1 for no time.
func magnitude(t metav1.Time, now time.Time) int {
	if t.IsZero() {
		return -1
	}
	return bits.Len64(uint64(max(now.Sub(t.Time), 0)))
}

// progress orders the phases of a Pod that counts.
func progress(pod *corev1.Pod) int {
	switch pod.Status.Phase {
	case corev1.PodPending, "":
		return 0
	case corev1.PodRunning:
		return 2
	}
	return 1
}

// ready reports whether a Pod is ready.
func ready(pod *corev1.Pod) bool {
	since := readySince(pod)
	return !since.IsZero()
}

// readySince is when a Pod became ready, the zero time if it is not.
func readySince(pod *corev1.Pod) metav1.Time {
	i := slices.IndexFunc(pod.Status.Conditions, isReady)
	switch {
	case i < 0:
		return metav1.Time{}
	case pod.Status.Conditions[i].LastTransitionTime.IsZero():
		return pod.CreationTimestamp
	}
	return pod.Status.Conditions[i].LastTransitionTime
}

func isReady(c corev1.PodCondition) bool {
	return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
}

// deletionCost is what a Pod's annotation says; one that is no number counts for nothing.
func deletionCost(pod *corev1.Pod) int32 {
	cost, err := strconv.ParseInt(pod.Annotations[corev1.PodDeletionCost], 10, 32)
	if err != nil {
		return 0
	}
	return int32(cost)
}

// restarts is how often the container that restarted most often did.
func restarts(containers []corev1.ContainerStatus) int32 {
	var most int32
	for _, c := range containers {
		most = max(most, c.RestartCount)
	}
	return most
}

// sidecars returns the init containers of a Pod that run as long as it does.
func sidecars(pod *corev1.Pod) []corev1.ContainerStatus {
	return slices.DeleteFunc(slices.Clone(pod.Status.InitContainerStatuses), func(s corev1.ContainerStatus) bool {
		return !slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool {
			return c.Name == s.Name && c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		})
	})
}
