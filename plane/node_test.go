package plane_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/plane"
	"github.com/setpoint-dev/setpoint/plane/node"
	"github.com/setpoint-dev/setpoint/plane/planetest"
)

func (c cluster) createPod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	c.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "nginx"}}},
	}
	for _, each := range change {
		each(pod)
	}
	return must(c.CoreV1().Pods(c.namespace).Create(c.Context(), pod, metav1.CreateOptions{}))(c.T)
}

func (c cluster) waitPod(name string, ok func(*corev1.Pod) bool) *corev1.Pod {
	c.Helper()
	return wait(c, name, ok)
}

func (c cluster) patchPod(name, patch string, subresource ...string) {
	c.Helper()
	must(c.CoreV1().Pods(c.namespace).Patch(c.Context(), name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, subresource...))(c.T)
}

func (c cluster) podGone(name string) {
	c.Helper()
	waitGone[corev1.Pod](c, name)
}

func (c cluster) waitEvent(pod, reason string) {
	c.Helper()
	waitAny(c, c.CoreV1().Events(c.namespace).Watch, func(e *corev1.Event) bool {
		return e.InvolvedObject.Name == pod && e.Reason == reason
	})
}

func annotate(annotation, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Annotations[annotation] = value }
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) corev1.PodCondition {
	at := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
	if at < 0 {
		return corev1.PodCondition{}
	}
	return pod.Status.Conditions[at]
}

func isReady(pod *corev1.Pod) bool {
	return condition(pod, corev1.PodReady).Status == corev1.ConditionTrue
}

func waitingFor(reason string) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool {
		statuses := pod.Status.ContainerStatuses
		return len(statuses) > 0 && statuses[0].State.Waiting != nil && statuses[0].State.Waiting.Reason == reason
	}
}

func unschedulable(part string) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool {
		scheduled := condition(pod, corev1.PodScheduled)
		return scheduled.Status == corev1.ConditionFalse && scheduled.Reason == corev1.PodReasonUnschedulable && strings.Contains(scheduled.Message, part)
	}
}

func TestNodes(t *testing.T) {
	p := planetest.Start(t, plane.Config{Nodes: node.Config{
		Count:    2,
		Labels:   map[string]string{"example.com/zone": "a"},
		Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")},
	}})

	inNamespace(t, p, "registered", func(c cluster) {
		n := wait(c, "node-1", func(n *corev1.Node) bool {
			return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
			})
		})
		if n.Labels["example.com/zone"] != "a" || n.Labels[corev1.LabelHostname] != "node-1" || len(n.Spec.Taints) > 0 ||
			n.Status.Allocatable.Cpu().String() != "8" || n.Status.Allocatable.Pods().Value() < 5000 || n.Status.Addresses[0].Address == "" {
			c.Errorf("node is %s", n.String())
		}
		waitAny(c, c.CoordinationV1().Leases(corev1.NamespaceNodeLease).Watch, func(l *coordinationv1.Lease) bool {
			return l.Name == "node-1" && l.Spec.RenewTime != nil && l.OwnerReferences[0].UID == n.UID
		})
	})

	inNamespace(t, p, "life", func(c cluster) {
		c.createPod("plain")
		pod := c.waitPod("plain", isReady)
		if pod.Status.Phase != corev1.PodRunning || pod.Status.PodIP == "" || pod.Status.StartTime == nil ||
			pod.Status.ObservedGeneration != pod.Generation || pod.Status.QOSClass != corev1.PodQOSBestEffort {
			c.Errorf("status is %s", pod.Status.String())
		}
		c.waitEvent("plain", "Scheduled")
		c.waitEvent("plain", "Started")
		c.patchPod("plain", `{"metadata":{"annotations":{"node.setpoint.dev/ready":"never"}}}`)
		c.waitPod("plain", func(pod *corev1.Pod) bool { return !isReady(pod) && pod.Status.Phase == corev1.PodRunning })
		c.patchPod("plain", `{"metadata":{"annotations":{"node.setpoint.dev/ready":null}}}`)
		c.waitPod("plain", isReady)
	})

	inNamespace(t, p, "failures", func(c cluster) {
		c.createPod("crash", annotate(node.AnnotationExitCode, "1"))
		c.createPod("pull", annotate(node.AnnotationImagePull, "fail"))
		c.createPod("evicted", annotate(node.AnnotationEvict, "true"))
		c.createPod("unreadable", annotate(node.AnnotationRun, "a while"))
		crash := c.waitPod("crash", waitingFor("CrashLoopBackOff"))
		if ended := crash.Status.ContainerStatuses[0].LastTerminationState.Terminated; ended == nil || ended.ExitCode != 1 {
			c.Errorf("status is %s", crash.Status.String())
		}
		c.waitPod("pull", waitingFor("ImagePullBackOff"))
		c.waitEvent("pull", "Failed")
		c.waitPod("evicted", func(pod *corev1.Pod) bool {
			return pod.Status.Phase == corev1.PodFailed && pod.Status.Reason == "Evicted"
		})
		c.waitEvent("unreadable", "InvalidScript")
	})

	inNamespace(t, p, "gates", func(c cluster) {
		c.createPod("gated", func(pod *corev1.Pod) {
			pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/hold"}}
			pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/lb"}}
		})
		c.waitPod("gated", func(pod *corev1.Pod) bool {
			return condition(pod, corev1.PodScheduled).Reason == corev1.PodReasonSchedulingGated && pod.Spec.NodeName == ""
		})
		c.patchPod("gated", `{"spec":{"schedulingGates":null}}`)
		c.waitPod("gated", func(pod *corev1.Pod) bool {
			return condition(pod, corev1.ContainersReady).Status == corev1.ConditionTrue && condition(pod, corev1.PodReady).Reason == "ReadinessGatesNotReady"
		})
		c.patchPod("gated", `{"status":{"conditions":[{"type":"example.com/lb","status":"True"}]}}`, "status")
		c.waitPod("gated", isReady)
	})

	inNamespace(t, p, "placement", func(c cluster) {
		requests := func(cpu string) func(*corev1.Pod) {
			return func(pod *corev1.Pod) {
				pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
			}
		}
		// Two large Pods fill both nodes; the third waits until one of them goes.
		c.createPod("one", requests("6"))
		c.createPod("two", requests("6"))
		c.waitPod("one", isReady)
		c.waitPod("two", isReady)
		c.createPod("three", requests("6"))
		c.waitPod("three", unschedulable("0/2 nodes are available: 2 Insufficient cpu."))
		c.waitEvent("three", "FailedScheduling")
		if err := c.CoreV1().Pods(c.namespace).Delete(c.Context(), "one", metav1.DeleteOptions{}); err != nil {
			c.Fatal(err)
		}
		c.waitPod("three", isReady)

		c.createPod("picky", func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{"example.com/disk": "ssd"} })
		c.waitPod("picky", unschedulable("didn't match Pod's node affinity/selector"))
		must(c.CoreV1().Nodes().Patch(c.Context(), "node-0", types.MergePatchType, []byte(`{"metadata":{"labels":{"example.com/disk":"ssd"}}}`), metav1.PatchOptions{}))(c.T)
		c.waitPod("picky", func(pod *corev1.Pod) bool { return isReady(pod) && pod.Spec.NodeName == "node-0" })

		c.createPod("foreign", func(pod *corev1.Pod) { pod.Spec.SchedulerName = "another" })
		c.createPod("claiming", func(pod *corev1.Pod) {
			pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
			}}}
		})
		c.waitPod("claiming", unschedulable(`persistentvolumeclaim "data" not found`))
		must(c.CoreV1().PersistentVolumeClaims(c.namespace).Create(c.Context(), &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: "data"},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		}, metav1.CreateOptions{}))(c.T)
		c.waitPod("claiming", isReady)
		if foreign := must(c.CoreV1().Pods(c.namespace).Get(c.Context(), "foreign", metav1.GetOptions{}))(c.T); foreign.Spec.NodeName != "" {
			c.Error("a Pod of another scheduler was assigned")
		}
	})

	inNamespace(t, p, "deletion", func(c cluster) {
		c.createPod("slow", annotate(node.AnnotationStop, "200ms"))
		c.createPod("stubborn", annotate(node.AnnotationStop, "never"))
		c.createPod("kept", func(pod *corev1.Pod) { pod.Finalizers = []string{"example.com/keep"} })
		for _, name := range []string{"slow", "stubborn", "kept"} {
			c.waitPod(name, isReady)
		}
		begin := time.Now()
		for name, grace := range map[string]int64{"slow": 30, "stubborn": 1, "kept": 30} {
			if err := c.CoreV1().Pods(c.namespace).Delete(c.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
				c.Fatal(err)
			}
		}
		c.podGone("slow")
		if took := time.Since(begin); took < 200*time.Millisecond {
			c.Errorf("a Pod that stops in 200ms was gone after %s", took)
		}
		c.podGone("stubborn")
		if took := time.Since(begin); took < time.Second {
			c.Errorf("a Pod with a grace period of 1s that never stops was gone after %s", took)
		}
		c.waitPod("kept", func(pod *corev1.Pod) bool {
			return pod.Status.Phase == corev1.PodSucceeded && *pod.DeletionGracePeriodSeconds == 0
		})
		c.patchPod("kept", `{"metadata":{"finalizers":null}}`)
		c.podGone("kept")
	})

	inNamespace(t, p, "lost-node", func(c cluster) {
		c.createPod("orphan", func(pod *corev1.Pod) { pod.Spec.NodeName = "node-1" })
		c.waitPod("orphan", isReady)
		if err := c.CoreV1().Nodes().Delete(c.Context(), "node-1", metav1.DeleteOptions{}); err != nil {
			c.Fatal(err)
		}
		c.podGone("orphan")
	})
}

// A plane whose Pods take their time shows every step.
func TestDelays(t *testing.T) {
	p := planetest.Start(t, plane.Config{Nodes: node.Config{Delays: node.Delays{
		Schedule: 50 * time.Millisecond, Start: 50 * time.Millisecond, Ready: 50 * time.Millisecond,
	}}})
	inNamespace(t, p, "slow", func(c cluster) {
		var steps []string
		c.createPod("p")
		c.waitPod("p", func(pod *corev1.Pod) bool {
			step := string(pod.Status.Phase)
			switch {
			case isReady(pod):
				step += " ready"
			case pod.Spec.NodeName == "":
				step += " unassigned"
			case waitingFor("ContainerCreating")(pod):
				step += " creating"
			}
			steps = append(steps, step)
			return isReady(pod)
		})
		want := []string{"Pending unassigned", "Pending", "Pending creating", "Running", "Running ready"}
		if !slices.Equal(slices.Compact(steps), want) {
			c.Errorf("steps were %q, want %q", steps, want)
		}
	})
}
