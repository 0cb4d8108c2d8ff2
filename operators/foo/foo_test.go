package foo

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/setpoint-dev/setpoint/operators/foo/v1alpha1"
)

// newFoo returns a Foo as the server hands it out, changed by the given functions.
func newFoo(change ...func(*v1alpha1.Foo)) *v1alpha1.Foo {
	count := int32(3)
	foo := &v1alpha1.Foo{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "foo-uid", Generation: 7},
		Spec:       v1alpha1.FooSpec{Replicas: &count, Image: "nginx:1.29"},
	}
	for _, c := range change {
		c(foo)
	}
	return foo
}

// running returns the Deployment of newFoo with all replicas available, changed by the given functions.
func running(change ...func(*appsv1.Deployment)) *appsv1.Deployment {
	d := desired(newFoo(), "deployment-uid")
	d.Generation = 2
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3, ReadyReplicas: 3}
	for _, c := range change {
		c(d)
	}
	return d
}

func TestDecide(t *testing.T) {
	now := metav1.Now()
	for _, test := range []struct {
		why   string
		named *appsv1.Deployment
		want  action
	}{
		{"nothing there", nil, create},
		{"its own", running(), apply},
		{"its own, on the way out", running(func(d *appsv1.Deployment) { d.DeletionTimestamp = &now }), wait},
		{"nobody's", running(func(d *appsv1.Deployment) { d.OwnerReferences = nil }), refuse},
		{"a stranger's, on the way out", running(func(d *appsv1.Deployment) {
			d.OwnerReferences, d.DeletionTimestamp = nil, &now
		}), refuse},
		{"of a Foo of that name that is gone", running(func(d *appsv1.Deployment) { d.OwnerReferences[0].UID = "before" }), refuse},
		{"owned, but controlled by somebody else", running(func(d *appsv1.Deployment) { d.OwnerReferences[0].Controller = nil }), refuse},
	} {
		if got := decide(newFoo(), test.named); got != test.want {
			t.Errorf("%s: got action %d, want %d", test.why, got, test.want)
		}
	}
}

func TestOthers(t *testing.T) {
	foo := newFoo(func(f *v1alpha1.Foo) { f.Spec.DeploymentName = "new" })
	old, wanted := *running(), *running(func(d *appsv1.Deployment) { d.Name = "new" })
	if diff := cmp.Diff([]appsv1.Deployment{old}, othersOf(foo, []appsv1.Deployment{wanted, old})); diff != "" {
		t.Errorf("not the old one alone (-want +got):\n%s", diff)
	}
}

func TestDesired(t *testing.T) {
	foo := newFoo()
	d := desired(foo, "deployment-uid")
	if d.Namespace != "default" || d.Name != "web" || d.UID != "deployment-uid" || *d.Spec.Replicas != 3 ||
		d.Spec.Template.Spec.Containers[0].Image != "nginx:1.29" {
		t.Errorf("does not say what the Foo says: %+v", d)
	}
	if !metav1.IsControlledBy(d, foo) {
		t.Errorf("is not controlled by the Foo: %+v", d.OwnerReferences)
	}
	if desired(foo, "").UID != "" {
		t.Error("one to create has a UID")
	}

	foo = newFoo(func(f *v1alpha1.Foo) { f.Spec = v1alpha1.FooSpec{DeploymentName: "other"} })
	d = desired(foo, "")
	if d.Name != "other" || *d.Spec.Replicas != 1 || d.Spec.Template.Spec.Containers[0].Image != "nginx:latest" {
		t.Errorf("wrong name or defaults: %+v", d)
	}
	if diff := cmp.Diff(desired(newFoo(), "").Spec.Selector, d.Spec.Selector); diff != "" {
		t.Errorf("the selector, which cannot change, depends on the spec (-before +after):\n%s", diff)
	}
}

func TestLabelsOfLongNames(t *testing.T) {
	long := strings.Repeat("a", 200)
	seen := map[string]bool{}
	for _, name := range []string{"web", "web.example", strings.Repeat("b", 63), long, long + "b", strings.Repeat("c.", 60) + "c"} {
		foo := newFoo(func(f *v1alpha1.Foo) { f.Name = name })
		value := podLabels(foo)["app.kubernetes.io/instance"]
		if errs := validation.IsValidLabelValue(value); len(errs) > 0 {
			t.Errorf("%s: label value %q: %s", name, value, errs)
		}
		if seen[value] {
			t.Errorf("%s: label value %q is another Foo's, too", name, value)
		}
		seen[value] = true
		parsed, err := labels.Parse(selector(foo))
		if err != nil || !parsed.Matches(labels.Set(podLabels(foo))) {
			t.Errorf("%s: selector %q does not select the Pods: %v", name, selector(foo), err)
		}
	}
}

func TestStatus(t *testing.T) {
	failing := func(kind appsv1.DeploymentConditionType, status corev1.ConditionStatus) func(*appsv1.Deployment) {
		return func(d *appsv1.Deployment) {
			d.Status.UpdatedReplicas = 1
			d.Status.Conditions = []appsv1.DeploymentCondition{{Type: kind, Status: status, Message: "because of the test"}}
		}
	}
	stranger := running(func(d *appsv1.Deployment) { d.OwnerReferences = nil })
	for _, test := range []struct {
		why         string
		outcome     outcome
		available   int32
		ready       bool
		progressing bool
		reason      string
		says        []string
	}{
		{"just created", outcome{action: create, named: desired(newFoo(), "")}, 0, false, true, v1alpha1.ReasonRollingOut, []string{`"web"`, "3"}},
		{"all available", outcome{action: apply, named: running()}, 3, true, false, v1alpha1.ReasonAvailable, nil},
		{"the Deployment's status is of before the change",
			outcome{action: apply, named: running(func(d *appsv1.Deployment) { d.Generation++ })}, 3, false, true, v1alpha1.ReasonRollingOut, nil},
		{"some Pods are of before the change",
			outcome{action: apply, named: running(func(d *appsv1.Deployment) { d.Status.UpdatedReplicas = 2 })}, 3, false, true, v1alpha1.ReasonRollingOut, nil},
		{"surplus Pods are still there",
			outcome{action: apply, named: running(func(d *appsv1.Deployment) { d.Status.Replicas = 4 })}, 3, false, true, v1alpha1.ReasonRollingOut, nil},
		{"one is not available",
			outcome{action: apply, named: running(func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 2 })}, 2, false, true, v1alpha1.ReasonRollingOut, nil},
		{"no progress", outcome{action: apply, named: running(failing(appsv1.DeploymentProgressing, corev1.ConditionFalse))},
			3, false, false, v1alpha1.ReasonDeadlineExceeded, []string{"because of the test"}},
		{"no Pods", outcome{action: apply, named: running(failing(appsv1.DeploymentReplicaFailure, corev1.ConditionTrue))},
			3, false, false, v1alpha1.ReasonReplicaFailure, []string{"because of the test"}},
		{"being deleted", outcome{action: wait, named: running()}, 3, false, true, v1alpha1.ReasonDeploymentDeleting, nil},
		{"name taken", outcome{action: refuse, named: stranger}, 0, false, false, v1alpha1.ReasonNameTaken,
			[]string{`"web"`, "nothing controls it", "Delete it", "spec.deploymentName"}},
		{"name taken while the old one runs", outcome{action: refuse, named: stranger, others: []appsv1.Deployment{*running(func(d *appsv1.Deployment) { d.Name = "old" })}},
			3, false, false, v1alpha1.ReasonNameTaken, []string{`keeps "old"`}},
		{"rejected", outcome{action: create, rejected: errors.New("image: bad")}, 0, false, false, v1alpha1.ReasonRejected, []string{"image: bad"}},
	} {
		status := statusOf(newFoo(), test.outcome)
		if status.AvailableReplicas != test.available || status.ObservedGeneration != 7 || status.Selector == "" {
			t.Errorf("%s: got %+v, want %d available", test.why, status, test.available)
		}
		for kind, want := range map[string]bool{v1alpha1.ConditionReady: test.ready, v1alpha1.ConditionProgressing: test.progressing} {
			c := conditionOf(t, status, kind)
			if (c.Status == metav1.ConditionTrue) != want || c.Reason != test.reason || c.ObservedGeneration != 7 || c.LastTransitionTime.IsZero() {
				t.Errorf("%s: got %+v, want %s=%t for %s", test.why, c, kind, want, test.reason)
			}
			for _, word := range test.says {
				if !strings.Contains(c.Message, word) {
					t.Errorf("%s: %s does not say %q: %s", test.why, kind, word, c.Message)
				}
			}
		}
	}
}

func TestStatusScaledToZero(t *testing.T) {
	none := int32(0)
	foo := newFoo(func(f *v1alpha1.Foo) { f.Spec.Replicas = &none })
	status := statusOf(foo, outcome{action: apply, named: running(func(d *appsv1.Deployment) {
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: 2}
	})})
	if c := conditionOf(t, status, v1alpha1.ConditionReady); c.Status != metav1.ConditionTrue || c.Reason != v1alpha1.ReasonScaledToZero {
		t.Errorf("got %+v, want it ready", c)
	}
}

func TestStatusThatDoesNotChangeStaysTheSame(t *testing.T) {
	long := metav1.NewTime(time.Now().Add(-time.Hour))
	foo := newFoo()
	foo.Status = statusOf(foo, outcome{action: apply, named: running()})
	for i := range foo.Status.Conditions {
		foo.Status.Conditions[i].LastTransitionTime = long
	}
	if diff := cmp.Diff(foo.Status, statusOf(foo, outcome{action: apply, named: running()})); diff != "" {
		t.Errorf("a reconcile that finds nothing new writes (-before +after):\n%s", diff)
	}
}

func conditionOf(t *testing.T, status v1alpha1.FooStatus, kind string) metav1.Condition {
	t.Helper()
	for _, c := range status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	t.Fatalf("no condition %s in %+v", kind, status)
	return metav1.Condition{}
}
