package node

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func candidateOf(name string, pods int, usedCPU string, change ...func(*corev1.Node)) candidate {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourcePods: resource.MustParse("10")},
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, c := range change {
		c(n)
	}
	return candidate{node: n, pods: pods, used: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(usedCPU)}}
}

func tainted(key string, effect corev1.TaintEffect) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: effect}) }
}

func notReady(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }
func cordoned(n *corev1.Node) { n.Spec.Unschedulable = true }

func requesting(cpu string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	}
}

func TestChoose(t *testing.T) {
	pinned := func(pod *corev1.Pod) { // as the DaemonSet controller does it
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"b"}}},
			}}},
		}}
	}
	tolerating := func(key string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
		}
	}
	for name, test := range map[string]struct {
		pod        *corev1.Pod
		nodes      []candidate
		want, says string
	}{
		"fewest Pods":       {specimen(), []candidate{candidateOf("a", 3, "0"), candidateOf("b", 1, "0"), candidateOf("c", 2, "0")}, "b", ""},
		"name among equals": {specimen(), []candidate{candidateOf("b", 1, "0"), candidateOf("a", 1, "0")}, "a", ""},
		"no nodes":          {specimen(), nil, "", "no nodes available to schedule pods"},
		"required affinity": {specimen(pinned), []candidate{candidateOf("a", 0, "0"), candidateOf("b", 9, "0")}, "b", ""},
		"selector": {specimen(func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{"disk": "ssd"} }), []candidate{candidateOf("a", 0, "0")}, "",
			"0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."},
		"taint":               {specimen(), []candidate{candidateOf("a", 0, "0", tainted("gpu", corev1.TaintEffectNoSchedule)), candidateOf("b", 5, "0")}, "b", ""},
		"tolerated taint":     {specimen(tolerating("gpu")), []candidate{candidateOf("a", 0, "0", tainted("gpu", corev1.TaintEffectNoExecute)), candidateOf("b", 5, "0")}, "a", ""},
		"soft taint":          {specimen(), []candidate{candidateOf("a", 0, "0", tainted("gpu", corev1.TaintEffectPreferNoSchedule))}, "a", ""},
		"cordoned":            {specimen(), []candidate{candidateOf("a", 0, "0", cordoned)}, "", "0/1 nodes are available: 1 node(s) were unschedulable."},
		"cordoned, tolerated": {specimen(tolerating(corev1.TaintNodeUnschedulable)), []candidate{candidateOf("a", 0, "0", cordoned)}, "a", ""},
		"room":                {specimen(requesting("1")), []candidate{candidateOf("a", 0, "3")}, "a", ""},
		"no room": {specimen(requesting("1")), []candidate{candidateOf("a", 0, "3001m"), candidateOf("b", 10, "0"), candidateOf("c", 0, "0", notReady)}, "",
			"0/3 nodes are available: 1 Insufficient cpu, 1 Too many pods, 1 node(s) were not ready."},
		"unknown resource": {specimen(func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}
		}), []candidate{candidateOf("a", 0, "0")}, "", "0/1 nodes are available: 1 Insufficient example.com/gpu."},
	} {
		t.Run(name, func(t *testing.T) {
			got, says := choose(test.pod, test.nodes)
			if got != test.want || says != test.says {
				t.Errorf("got %q, %q, want %q, %q", got, says, test.want, test.says)
			}
		})
	}
}

func TestAddresses(t *testing.T) {
	a := newAddresses()
	a.keep("10.128.0.2")
	a.keep("192.0.2.1") // not ours
	first, second := a.take(), a.take()
	if first != "10.128.0.1" || second != "10.128.0.3" {
		t.Errorf("took %s and %s, want the two around the one in use", first, second)
	}
	a.release(first)
	if third := a.take(); third != "10.128.0.4" {
		t.Errorf("took %s, want a released address to come last", third)
	}
	a.last = 1<<23 - 2
	if wrapped := a.take(); wrapped != "10.128.0.1" {
		t.Errorf("took %s after the last address, want the first free one", wrapped)
	}
}
