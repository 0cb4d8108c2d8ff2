package configspec

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/filter"
	"github.com/setpoint-dev/setpoint/internal/apitest"
)

func TestMistakesAreReportedTogether(t *testing.T) {
	m, err := setpoint.NewManager(setpoint.Config{REST: apitest.New().REST()})
	if err != nil {
		t.Fatal(err)
	}
	_, err = New(m, "my site", Options[website]{Key: "a/b", MaxBytes: -1, Status: 7})
	for _, word := range []string{"Label", `"a/b"`, "-1", "Status 7", "my site"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("does not say %q: %v", word, err)
		}
	}
	if _, err = New(m, "", Options[website]{Label: label}); err == nil {
		t.Error("took an empty name")
	}
	if _, err = New(m, "website", Options[website]{Label: "example.com/" + strings.Repeat("a", 60)}); err == nil || !strings.Contains(err.Error(), "-applied") {
		t.Errorf("took a label from which no annotation can be made: %v", err)
	}
	if _, err = New(m, "website", Options[website]{Label: label, MaxBytes: 100_000}); err == nil || !strings.Contains(err.Error(), "65536") {
		t.Errorf("took documents of which no copy can be kept in an annotation: %v", err)
	}
	if _, err = New(m, "website", Options[website]{Label: label, Key: "status.yaml", Status: StatusConfigMap, MaxBytes: 100_000}); err == nil ||
		!strings.Contains(err.Error(), "status.yaml") || strings.Contains(err.Error(), "MaxBytes") {
		t.Errorf("a document where the status is: %v", err)
	}
	d, err := New(m, "website", Options[website]{Label: label})
	if err != nil || d.options.Key != "spec.yaml" || d.options.MaxBytes != 64<<10 {
		t.Errorf("got %+v, %v", d, err)
	}
}

func TestCacheIsLimitedToTheLabel(t *testing.T) {
	o := Cache(label, "shop", "test")
	for value, want := range map[string]bool{"example.com/spec": true, "example.com/other": false} {
		if got := o.Labels.Matches(labels.Set{value: "x"}); got != want {
			t.Errorf("%s: got %t", value, got)
		}
	}
	if len(o.Namespaces) != 2 {
		t.Errorf("namespaces %v", o.Namespaces)
	}
}

func TestChanged(t *testing.T) {
	state := func(edits ...func(*corev1.ConfigMap)) *filter.State {
		cm := document("blog", good)
		cm.Annotations = map[string]string{label + "-status": "{}"}
		cm.ResourceVersion = "1"
		for _, edit := range edits {
			edit(cm)
		}
		return filter.StateOf(cm)
	}
	noStatus := func(cm *corev1.ConfigMap) { cm.Annotations = nil }
	newStatus := func(cm *corev1.ConfigMap) {
		cm.Annotations[label+"-status"], cm.ResourceVersion = `{"observed":"x"}`, "2"
		cm.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "configspec-website"}}
	}
	for _, test := range []struct {
		why      string
		place    Place
		old, now *filter.State
		want     bool
	}{
		{"new", Annotation, nil, state(), true},
		{"another kind of document", Annotation, nil, state(func(cm *corev1.ConfigMap) { cm.Labels[label] = "database" }), false},
		{"status written", Annotation, state(), state(newStatus), false},
		{"status written first", Annotation, state(noStatus), state(newStatus), false},
		{"status removed", Annotation, state(), state(noStatus), true},
		{"no annotation, where it is elsewhere", StatusConfigMap, state(noStatus), state(noStatus, func(cm *corev1.ConfigMap) { cm.ResourceVersion = "2" }), false},
		{"document", Annotation, state(), state(newStatus, func(cm *corev1.ConfigMap) { cm.Data["spec.yaml"] = "host: b" }), true},
		{"document in binary", Annotation, state(), state(func(cm *corev1.ConfigMap) { cm.BinaryData = map[string][]byte{"x": {1}} }), true},
		{"another annotation", Annotation, state(), state(func(cm *corev1.ConfigMap) { cm.Annotations["note"] = "x" }), true},
		{"label added", Annotation, state(), state(func(cm *corev1.ConfigMap) { cm.Labels["team"] = "x" }), true},
		{"finalizer", Annotation, state(), state(func(cm *corev1.ConfigMap) { cm.Finalizers = []string{"example.com/dns"} }), true},
		{"became one", Annotation, state(func(cm *corev1.ConfigMap) { cm.Labels = nil }), state(), true},
		{"is one no more", Annotation, state(), state(func(cm *corev1.ConfigMap) { cm.Labels = nil }), false},
	} {
		d := &Documents[website]{options: options, name: "website"}
		d.options.Status = test.place
		if got := d.changed(filter.Change{Old: test.old, New: test.now}); got != test.want {
			t.Errorf("%s: got %t", test.why, got)
		}
	}
}
