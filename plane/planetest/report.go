package planetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// maxReported is how many Events, and names of other objects, a failure shows.
const maxReported = 10

// report says what was seen while waiting.
func (w *waiter) report() string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if w.last == nil {
		return "it does not exist; " + w.target.others(ctx) + w.target.latestEvents(ctx)
	}
	shown := w.last.DeepCopy()
	shown.SetManagedFields(nil)
	text, err := yaml.Marshal(shown.Object)
	if err != nil {
		text = []byte(err.Error())
	}
	return fmt.Sprintf("the last of %d states seen:\n%s%s", w.states, text, w.target.latestEvents(ctx))
}

// others names what exists instead of the target.
func (t *target) others(ctx context.Context) string {
	list, err := t.client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	if len(list.Items) == 0 {
		return fmt.Sprintf("there is no %s at all", t.gvk.Kind)
	}
	var names []string
	_ = list.EachListItem(func(item runtime.Object) error {
		names = append(names, item.(*unstructured.Unstructured).GetName())
		return nil
	})
	if len(names) > maxReported {
		names = append(names[:maxReported], "…")
	}
	return fmt.Sprintf("of its kind there are %s", strings.Join(names, ", "))
}

// latestEvents lists the Events about the target, oldest first.
func (t *target) latestEvents(ctx context.Context) string {
	namespace := t.namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	list, err := t.events.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: fields.Set{
		"involvedObject.kind": t.gvk.Kind, "involvedObject.name": t.name,
	}.String()})
	if err != nil || len(list.Items) == 0 {
		return "\n(no Events about it)"
	}
	events := list.Items
	slices.SortFunc(events, func(a, b corev1.Event) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	events = events[max(0, len(events)-maxReported):]
	var out strings.Builder
	out.WriteString("\nits latest Events:\n")
	for _, e := range events {
		fmt.Fprintf(&out, "  %s %s: %s\n", e.Type, e.Reason, e.Message)
	}
	return out.String()
}
