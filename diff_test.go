package setpoint

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/setpoint-dev/setpoint/filter"
)

func TestChangedFields(t *testing.T) {
	pod := func(change func(*corev1.Pod)) *filter.State {
		p := &corev1.Pod{}
		p.Labels = map[string]string{"a": "1"}
		change(p)
		return filter.StateOf(p)
	}
	same := pod(func(*corev1.Pod) {})
	for why, test := range map[string]struct {
		old, now *filter.State
		want     string
	}{
		"nothing":              {same, same, ""},
		"created":              {nil, same, ""},
		"deleted":              {same, nil, ""},
		"what each write does": {same, pod(func(p *corev1.Pod) { p.ResourceVersion, p.Generation = "2", 2 }), ""},
		"values and lists": {same, pod(func(p *corev1.Pod) {
			p.Labels["a"] = "2"
			p.Spec.NodeName = "n"
			p.Spec.Containers = []corev1.Container{{Name: "c"}}
			p.Status.Phase = "Running"
		}), "metadata.labels.a spec.containers spec.nodeName status.phase"},
		"a map that goes": {same, pod(func(p *corev1.Pod) { p.Labels = nil }), "metadata.labels"},
		"unstructured": {
			filter.StateOf(&unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"n": int64(1)}}}),
			filter.StateOf(&unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"n": int64(2)}}}),
			"spec.n",
		},
	} {
		got := changedFields(filter.Change{Old: test.old, New: test.now})
		if want := strings.Fields(test.want); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", why, got, want)
		}
	}
}
