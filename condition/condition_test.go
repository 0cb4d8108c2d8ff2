package condition_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/condition"
)

func ready(status metav1.ConditionStatus, reason string, generation int64) metav1.Condition {
	return metav1.Condition{Type: "Ready", Status: status, Reason: reason, ObservedGeneration: generation}
}

func TestTransitionTimeMovesOnlyWithStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var conditions []metav1.Condition
		start := time.Now().Truncate(time.Second)
		for _, step := range []struct {
			why     string
			set     metav1.Condition
			changed bool
			moved   time.Duration // since the start
		}{
			{"a new condition", ready(metav1.ConditionFalse, "Starting", 1), true, time.Minute},
			{"the same again", ready(metav1.ConditionFalse, "Starting", 1), false, time.Minute},
			{"another reason", ready(metav1.ConditionFalse, "Waiting", 1), true, time.Minute},
			{"another generation", ready(metav1.ConditionFalse, "Waiting", 2), true, time.Minute},
			{"another status", ready(metav1.ConditionTrue, "Done", 2), true, 5 * time.Minute},
			{"the same again", ready(metav1.ConditionTrue, "Done", 2), false, 5 * time.Minute},
			{"back", ready(metav1.ConditionUnknown, "Lost", 2), true, 7 * time.Minute},
		} {
			time.Sleep(time.Minute)
			if changed := condition.Set(&conditions, step.set); changed != step.changed {
				t.Errorf("%s: Set says changed=%v", step.why, changed)
			}
			c, found := condition.Get(conditions, "Ready")
			if !found || c.Status != step.set.Status || c.Reason != step.set.Reason || c.ObservedGeneration != step.set.ObservedGeneration {
				t.Errorf("%s: the condition is %+v", step.why, c)
			}
			if moved := c.LastTransitionTime.Sub(start); moved != step.moved {
				t.Errorf("%s: the last transition was after %v, want %v", step.why, moved, step.moved)
			}
		}
	})
}

func TestTransitionTimeSurvivesTheAPI(t *testing.T) {
	var conditions []metav1.Condition
	condition.Set(&conditions, ready(metav1.ConditionTrue, "Done", 1))
	at := conditions[0].LastTransitionTime
	data, err := at.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var back metav1.Time
	if err := back.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	if !at.Equal(&back) {
		t.Errorf("%v is read back as %v, which looks like a change", at, back)
	}
}

func TestOrderDoesNotDependOnCallers(t *testing.T) {
	var one, other []metav1.Condition
	for _, name := range []string{"Ready", "Available", "Progressing"} {
		condition.Set(&one, metav1.Condition{Type: name, Status: metav1.ConditionTrue})
	}
	for _, name := range []string{"Progressing", "Ready", "Available"} {
		condition.Set(&other, metav1.Condition{Type: name, Status: metav1.ConditionTrue})
	}
	types := func(conditions []metav1.Condition) (out []string) {
		for _, c := range conditions {
			out = append(out, c.Type)
		}
		return out
	}
	if !slices.Equal(types(one), types(other)) {
		t.Errorf("%v differs from %v", types(one), types(other))
	}
}

func TestIsTrueFor(t *testing.T) {
	for _, test := range []struct {
		why        string
		conditions []metav1.Condition
		want       bool
	}{
		{"none", nil, false},
		{"of an older generation", []metav1.Condition{ready(metav1.ConditionTrue, "", 1)}, false},
		{"of this generation", []metav1.Condition{ready(metav1.ConditionTrue, "", 2)}, true},
		{"false", []metav1.Condition{ready(metav1.ConditionFalse, "", 2)}, false},
	} {
		if got := condition.IsTrueFor(test.conditions, "Ready", 2); got != test.want {
			t.Errorf("%s: got %v", test.why, got)
		}
	}
}

func ExampleSet() {
	var conditions []metav1.Condition // of an object's status
	changed := condition.Set(&conditions, metav1.Condition{
		Type: "Ready", Status: metav1.ConditionFalse, Reason: "Starting", ObservedGeneration: 3,
	})
	fmt.Println(changed, condition.IsTrue(conditions, "Ready"))

	changed = condition.Set(&conditions, metav1.Condition{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: "Running", ObservedGeneration: 3,
	})
	fmt.Println(changed, condition.IsTrueFor(conditions, "Ready", 3), condition.IsTrueFor(conditions, "Ready", 4))

	fmt.Println(condition.Remove(&conditions, "Ready"), len(conditions))
	// Output:
	// true false
	// true true false
	// true 0
}
