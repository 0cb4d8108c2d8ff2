package filter_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/filter"
)

// A filter is a function. This one passes what the built-in ones cannot know: whether a Pod moved to another phase.
func ExampleFilter() {
	phase := func(s *filter.State) corev1.PodPhase {
		object, err := s.Object()
		if err != nil {
			return ""
		}
		return object.(*corev1.Pod).Status.Phase
	}
	phaseChanged := func(c filter.Change) bool {
		return c.Old == nil || c.New == nil || phase(c.Old) != phase(c.New)
	}

	pending := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}}
	running := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	fmt.Println(phaseChanged(filter.Change{Old: filter.StateOf(pending), New: filter.StateOf(running)}))
	fmt.Println(phaseChanged(filter.Change{Old: filter.StateOf(running), New: filter.StateOf(running)}))
	// Output:
	// true
	// false
}

func ExampleGenerationChanged() {
	before := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
	specEdited := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
	statusWritten := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Generation: 1},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	change := func(before, after *corev1.Pod) filter.Change {
		return filter.Change{Old: filter.StateOf(before), New: filter.StateOf(after)}
	}
	fmt.Println("spec edited:", filter.GenerationChanged(change(before, specEdited)))
	fmt.Println("status written:", filter.GenerationChanged(change(before, statusWritten)))
	fmt.Println("created:", filter.GenerationChanged(filter.Change{New: filter.StateOf(before)}))
	// Output:
	// spec edited: true
	// status written: false
	// created: true
}

// Filters combine: this one wakes a controller when the desired state or an annotation of a production object changes.
func ExampleAnd() {
	wanted := filter.And(
		filter.Namespaces("production"),
		filter.Or(filter.GenerationChanged, filter.AnnotationChanged),
	)
	object := func(namespace string, annotations map[string]string) *filter.State {
		return filter.StateOf(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Generation: 1, Annotations: annotations,
		}})
	}
	restart := map[string]string{"restart": "now"}
	fmt.Println(wanted(filter.Change{Old: object("production", nil), New: object("production", restart)}))
	fmt.Println(wanted(filter.Change{Old: object("production", restart), New: object("production", restart)}))
	fmt.Println(wanted(filter.Change{Old: object("staging", nil), New: object("staging", restart)}))
	// Output:
	// true
	// false
	// false
}
