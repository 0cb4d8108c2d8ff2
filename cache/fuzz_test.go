package cache

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
)

// FuzzModel lets the fuzzer choose what the model does. Instrumenting all of Kubernetes for it takes long: make
// fuzz lets TestModel try random seeds instead.
func FuzzModel(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed, []byte{})
	}
	f.Fuzz(func(t *testing.T, seed uint64, program []byte) {
		synctest.Test(t, func(t *testing.T) {
			newModel(t, &programSource{program, rand.NewPCG(seed, 0)}).run()
		})
	})
}

// programSource draws from a program, byte by byte, and after its end at random.
type programSource struct {
	program []byte
	rest    rand.Source
}

// Uint64 implements rand.Source. The bytes of a draw are all the same, so that it does not matter which of
// them decide.
func (s *programSource) Uint64() uint64 {
	if len(s.program) == 0 {
		return s.rest.Uint64()
	}
	b := uint64(s.program[0])
	s.program = s.program[1:]
	return b * 0x0101010101010101
}

// byApp is the index of the model's objects.
func byApp(obj runtime.Object) []string {
	m, err := meta.Accessor(obj)
	must(err)
	return []string{m.GetLabels()["app"]}
}

// compareWith compares every way to list with the server's objects, by key.
func (m *model) compareWith(want map[string]testObject) {
	m.t.Helper()
	ofApp := func(is bool) map[string]testObject {
		return maps.Collect(func(yield func(string, testObject) bool) {
			for k, o := range want {
				if (o.GetLabels()["app"] == "x") == is && !yield(k, o) {
					return
				}
			}
		})
	}
	for _, list := range []struct {
		what    string
		options ListOptions
		want    map[string]testObject
	}{
		{"list", ListOptions{}, want},
		{"list by label", ListOptions{Labels: mustSelector("app=x")}, ofApp(true)},
		{"list by absent label", ListOptions{Labels: mustSelector("app notin (x)")}, ofApp(false)},
		{"list by field", ListOptions{Fields: fields.OneTermEqualSelector("app", "x")}, ofApp(true)},
		{"list by other field", ListOptions{Fields: fields.OneTermNotEqualSelector("app", "x")}, ofApp(false)},
	} {
		m.compareList(list.what, list.options, list.want)
	}
}

func (m *model) compareList(what string, options ListOptions, want map[string]testObject) {
	m.t.Helper()
	var states []string
	var objects []map[string]any
	for _, k := range slices.Sorted(maps.Keys(want)) {
		states = append(states, fmt.Sprint(k, " ", want[k].GetUID(), "@", want[k].GetResourceVersion()))
		o := want[k].DeepCopyObject().(testObject)
		o.SetManagedFields(nil)
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		must(err)
		objects = append(objects, content)
	}
	var metadata metav1.PartialObjectMetadataList
	must(m.List(m.t.Context(), m.kind, options, &metadata))
	var got []string
	for _, o := range metadata.Items {
		got = append(got, fmt.Sprint(joinKey(key(o.Namespace, o.Name)), " ", o.UID, "@", o.ResourceVersion))
	}
	same(m.t, what+" of metadata", states, got)
	if m.options(m.kind).MetadataOnly {
		return
	}
	var whole unstructured.UnstructuredList
	must(m.List(m.t.Context(), m.kind, options, &whole))
	var contents []map[string]any
	for _, o := range whole.Items {
		if m.kind == podKind { // the server's Go objects do not say their kind
			delete(o.Object, "apiVersion")
			delete(o.Object, "kind")
		}
		contents = append(contents, o.Object)
	}
	same(m.t, what, objects, contents)
	if m.kind == podKind {
		var typed corev1.PodList
		must(m.List(m.t.Context(), m.kind, options, &typed))
		contents = nil
		for i := range typed.Items {
			typed.Items[i].TypeMeta = metav1.TypeMeta{}
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&typed.Items[i])
			must(err)
			contents = append(contents, content)
		}
		same(m.t, what+" of Go objects", objects, contents)
	}
}
