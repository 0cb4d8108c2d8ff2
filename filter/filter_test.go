package filter

import (
	"errors"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// pod returns a state of a Pod named ns/p of generation 1, after the edits.
func pod(edits ...func(*corev1.Pod)) *State {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Generation: 1}}
	for _, edit := range edits {
		edit(p)
	}
	return StateOf(p)
}

func generation(n int64) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Generation = n } }

func label(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { metav1.SetMetaDataLabel(&p.ObjectMeta, key, value) }
}

func annotation(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value) }
}

func marked(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }

func running(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }

func TestFilters(t *testing.T) {
	selector, err := labels.Parse("app in (web, api), tier!=test")
	if err != nil {
		t.Fatal(err)
	}
	web, db := pod(label("app", "web")), pod(label("app", "db"))
	created, deleted := Change{New: pod()}, Change{Old: pod()}
	unchanged := Change{Old: pod(), New: pod(running)}
	marking := Change{Old: pod(), New: pod(marked)}
	all := []Filter{GenerationChanged, LabelChanged, AnnotationChanged}
	for _, test := range []struct {
		name   string
		filter Filter
		change Change
		want   bool
	}{
		{"generation: created", GenerationChanged, created, true},
		{"generation: deleted", GenerationChanged, deleted, true},
		{"generation: of the first listing", GenerationChanged, Change{New: pod(), Initial: true}, true},
		{"generation: status only", GenerationChanged, unchanged, false},
		{"generation: moved", GenerationChanged, Change{Old: pod(), New: pod(generation(2))}, true},
		{"generation: object replaced by one with a lower", GenerationChanged, Change{Old: pod(generation(5)), New: pod()}, true},
		{"generation: marked for deletion", GenerationChanged, marking, true},
		{"generation: marked before", GenerationChanged, Change{Old: pod(marked), New: pod(marked, running)}, false},
		{"generation: kind without", GenerationChanged, Change{Old: pod(generation(0)), New: pod(generation(0))}, true},

		{"label: created", LabelChanged, created, true},
		{"label: deleted", LabelChanged, deleted, true},
		{"label: other change", LabelChanged, Change{Old: pod(), New: pod(annotation("a", "1"))}, false},
		{"label: set", LabelChanged, Change{Old: pod(), New: pod(label("a", ""))}, true},
		{"label: removed", LabelChanged, Change{Old: pod(label("a", "")), New: pod()}, true},
		{"label: changed", LabelChanged, Change{Old: web, New: db}, true},
		{"label: marked for deletion", LabelChanged, marking, true},

		{"annotation: created", AnnotationChanged, created, true},
		{"annotation: deleted", AnnotationChanged, deleted, true},
		{"annotation: other change", AnnotationChanged, Change{Old: pod(), New: pod(label("a", "1"))}, false},
		{"annotation: changed", AnnotationChanged, Change{Old: pod(annotation("a", "1")), New: pod(annotation("a", "2"))}, true},
		{"annotation: marked for deletion", AnnotationChanged, marking, true},

		{"selector: inside", Labels(selector), Change{Old: web, New: web}, true},
		{"selector: outside", Labels(selector), Change{Old: db, New: db}, false},
		{"selector: enters", Labels(selector), Change{Old: db, New: web}, true},
		{"selector: leaves", Labels(selector), Change{Old: web, New: db}, true},
		{"selector: created inside", Labels(selector), Change{New: web}, true},
		{"selector: created outside", Labels(selector), Change{New: db}, false},
		{"selector: deleted inside", Labels(selector), Change{Old: web}, true},
		{"selector: deleted outside", Labels(selector), Change{Old: db}, false},

		{"namespace", Namespaces("other", "ns"), created, true},
		{"namespace of a deleted object", Namespaces("ns"), deleted, true},
		{"other namespace", Namespaces("other"), created, false},
		{"name", Names("p"), deleted, true},
		{"other name", Names("q"), unchanged, false},

		{"and: none", And(), unchanged, true},
		{"and: all", And(Names("p"), Namespaces("ns")), unchanged, true},
		{"and: one", And(Names("p"), Namespaces("other")), unchanged, false},
		{"or: none", Or(), unchanged, false},
		{"or: one", Or(LabelChanged, Names("p")), unchanged, true},
		{"or: no one", Or(all...), unchanged, false},
		{"not", Not(GenerationChanged), unchanged, true},
		{"not: created", Not(GenerationChanged), created, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.filter(test.change); got != test.want {
				t.Errorf("passes: %v, want %v", got, test.want)
			}
		})
	}
}

func TestChange(t *testing.T) {
	for _, test := range []struct {
		name     string
		change   Change
		verb     string
		deletion bool
	}{
		{"appears", Change{New: pod()}, Added, false},
		{"appears while being deleted", Change{New: pod(marked)}, Added, true},
		{"changes", Change{Old: pod(), New: pod()}, Modified, false},
		{"is marked for deletion", Change{Old: pod(), New: pod(marked)}, Modified, true},
		{"changes while being deleted", Change{Old: pod(marked), New: pod(marked)}, Modified, false},
		{"goes", Change{Old: pod(marked)}, Deleted, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.change.Verb(); got != test.verb {
				t.Errorf("verb %q, want %q", got, test.verb)
			}
			if got := test.change.Deletion(); got != test.deletion {
				t.Errorf("deletion %v, want %v", got, test.deletion)
			}
			if want := test.change.New; want != nil && test.change.Latest() != want || want == nil && test.change.Latest() != test.change.Old {
				t.Error("Latest is not the newest state")
			}
		})
	}
}

// TestStateDecodesOnce uses a state from many goroutines; each of its parts must be decoded once, and only when asked for.
func TestStateDecodesOnce(t *testing.T) {
	metas, objects := 0, 0
	broken := errors.New("broken")
	s := NewState(
		func() *metav1.ObjectMeta { metas++; return &metav1.ObjectMeta{Name: "p"} },
		func() (runtime.Object, error) { objects++; return nil, broken },
	)
	c := Change{Old: s, New: s}
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() { Or(GenerationChanged, LabelChanged, AnnotationChanged, Names("q"))(c) })
	}
	all.Wait()
	if metas != 1 || objects != 0 {
		t.Errorf("filters on metadata decoded metadata %d times, the object %d times; want 1, 0", metas, objects)
	}
	for range 10 {
		all.Go(func() {
			if _, err := s.Object(); err != broken {
				t.Errorf("Object returned error %v, want %v", err, broken)
			}
		})
	}
	all.Wait()
	if objects != 1 {
		t.Errorf("object decoded %d times, want once", objects)
	}
}

func TestStateOfUnstructured(t *testing.T) {
	u := &unstructured.Unstructured{}
	u.SetNamespace("ns")
	u.SetName("p")
	u.SetGeneration(3)
	u.SetLabels(map[string]string{"app": "web"})
	meta := StateOf(u).Meta()
	if meta.Namespace != "ns" || meta.Name != "p" || meta.Generation != 3 || meta.Labels["app"] != "web" {
		t.Errorf("metadata %+v", meta)
	}
}
