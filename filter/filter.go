package filter

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
)

// A Filter reports whether a change should reach the queue. See the laws in the package comment.
type Filter func(Change) bool

// GenerationChanged passes a change that moved metadata.generation, which the API server does when the desired state
// changes but not when only status, labels or annotations do. It is the usual filter of a controller that writes the
// status of its own kind.
//
// Creation and deletion pass. So do updates of a kind for which the API server keeps no generation (it stays 0, as in
// ConfigMap and Secret): nothing can be told from it there. controller-runtime's predicate of this name drops those.
func GenerationChanged(c Change) bool {
	if c.Old == nil || c.Deletion() {
		return true
	}
	old, now := c.Old.Meta().Generation, c.New.Meta().Generation
	return old != now || now == 0
}

// LabelChanged passes a change of the object's labels. Creation and deletion pass.
func LabelChanged(c Change) bool {
	return c.Old == nil || c.Deletion() || !maps.Equal(c.Old.Meta().Labels, c.New.Meta().Labels)
}

// AnnotationChanged passes a change of the object's annotations. Creation and deletion pass.
func AnnotationChanged(c Change) bool {
	return c.Old == nil || c.Deletion() || !maps.Equal(c.Old.Meta().Annotations, c.New.Meta().Annotations)
}

// Labels passes objects whose labels match the selector, before or after the change: an object that leaves the
// selection is as much news as one that enters it. The selector is what [labels.Parse], [labels.SelectorFromSet] and
// metav1.LabelSelectorAsSelector return.
func Labels(selector labels.Selector) Filter {
	matches := func(s *State) bool { return s != nil && selector.Matches(labels.Set(s.Meta().Labels)) }
	return func(c Change) bool { return matches(c.New) || matches(c.Old) }
}

// Namespaces passes objects in one of the namespaces; "" stands for cluster-scoped objects.
func Namespaces(namespaces ...string) Filter {
	return func(c Change) bool { return slices.Contains(namespaces, c.Latest().Meta().Namespace) }
}

// Names passes objects with one of the names, in whatever namespace.
func Names(names ...string) Filter {
	return func(c Change) bool { return slices.Contains(names, c.Latest().Meta().Name) }
}

// And passes what all filters pass; without any it passes everything. It stops at the first that does not.
func And(filters ...Filter) Filter {
	return func(c Change) bool {
		for _, pass := range filters {
			if !pass(c) {
				return false
			}
		}
		return true
	}
}

// Or passes what one of the filters passes; without any it passes nothing. It stops at the first that does.
func Or(filters ...Filter) Filter {
	return func(c Change) bool {
		for _, pass := range filters {
			if pass(c) {
				return true
			}
		}
		return false
	}
}

// Not passes what the filter does not. The "changed" filters pass creation and deletion, so their negation drops these:
// Not(GenerationChanged) passes nothing but updates that leave the desired state alone.
func Not(filter Filter) Filter {
	return func(c Change) bool { return !filter(c) }
}
