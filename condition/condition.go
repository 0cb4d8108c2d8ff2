// Package condition keeps the conditions of an object's status, as the API conventions want them:
// one of each type, with a transition time that moves only when the status does, and the
// generation of the object that was looked at.
//
// The functions work on the slice in memory. Its elements are kept sorted by type, so that the
// same conditions always give the same status, whoever set them in whatever order.
package condition

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Set adds c, or replaces the condition of its type, and reports whether that changed anything.
// LastTransitionTime becomes c's, or now if that is zero, when the condition is new or its status
// changes; else it stays. c should carry the object's generation as its ObservedGeneration, and a
// Reason, which the API requires.
func Set(conditions *[]metav1.Condition, c metav1.Condition) (changed bool) {
	at, found := find(*conditions, c.Type)
	if found && (*conditions)[at].Status == c.Status {
		c.LastTransitionTime = (*conditions)[at].LastTransitionTime
	} else if c.LastTransitionTime.IsZero() {
		// The API keeps seconds: anything finer would look like a change when it is read back.
		c.LastTransitionTime = metav1.NewTime(time.Now().Truncate(time.Second))
	}
	if found {
		changed = !equal((*conditions)[at], c)
		(*conditions)[at] = c
		return changed
	}
	*conditions = append(*conditions, c)
	slices.SortStableFunc(*conditions, func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
	return true
}

// Remove removes the condition of that type and reports whether there was one.
func Remove(conditions *[]metav1.Condition, conditionType string) (removed bool) {
	at, found := find(*conditions, conditionType)
	if found {
		*conditions = slices.Delete(*conditions, at, at+1)
	}
	return found
}

// Get returns the condition of that type.
func Get(conditions []metav1.Condition, conditionType string) (c metav1.Condition, found bool) {
	at, found := find(conditions, conditionType)
	if !found {
		return metav1.Condition{}, false
	}
	return conditions[at], true
}

// IsTrue reports whether the condition of that type is there and true. It may be about an older
// generation: see [IsTrueFor].
func IsTrue(conditions []metav1.Condition, conditionType string) bool {
	c, _ := Get(conditions, conditionType)
	return c.Status == metav1.ConditionTrue
}

// IsTrueFor reports whether the condition of that type is true of that generation of the object,
// or of a later one.
func IsTrueFor(conditions []metav1.Condition, conditionType string, generation int64) bool {
	c, _ := Get(conditions, conditionType)
	return c.Status == metav1.ConditionTrue && c.ObservedGeneration >= generation
}

func find(conditions []metav1.Condition, conditionType string) (at int, found bool) {
	at = slices.IndexFunc(conditions, func(c metav1.Condition) bool { return c.Type == conditionType })
	return at, at >= 0
}

func equal(a, b metav1.Condition) bool {
	return a.LastTransitionTime.Equal(&b.LastTransitionTime) &&
		a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message && a.ObservedGeneration == b.ObservedGeneration
}
