package cache

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// What is kept compressed reads like what is not: in every form, by labels and by indexes, with the
// managedFields put aside, whether it was there before the dictionary or came later.
func TestCompress(t *testing.T) {
	for _, kind := range []schema.GroupVersionKind{podKind, widgetKind} {
		t.Run(kind.Kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				put := func(i int) {
					labels := map[string]string{"app": fmt.Sprint(i % 7)}
					if kind == podKind {
						s.put(pods, pod("a", fmt.Sprint(i), labels))
					} else {
						s.put(widgets, widget("a", fmt.Sprint(i), labels))
					}
				}
				for i := range 60 {
					put(i)
				}
				caches := []*harness{}
				for _, compress := range []bool{false, true} {
					h := prepare(t, s, Config{Default: Options{Compress: compress}, FieldOwners: []string{"mine"}})
					must(h.Index(kind, "name", func(o runtime.Object) []string { return []string{o.(metav1.Object).GetName()} }))
					_, _ = h.watchKind(t, kind)
					h.run(t)
					pass(time.Second)
					caches = append(caches, h)
				}
				for i := range 90 { // some anew, some for the first time
					if i%2 == 0 {
						put(i)
					}
				}
				pass(time.Second)
				checkCompressed(t, kind, caches[0], caches[1])
			})
		})
	}
}

func checkCompressed(t *testing.T, kind schema.GroupVersionKind, plain, compressed *harness) {
	t.Helper()
	st, err := compressed.lookup(kind)
	must(err)
	for e := range st.table.Snapshot().All() {
		if !e.Value.compressed {
			t.Fatalf("%s is not compressed", e.Key)
		}
	}
	for name, options := range map[string]ListOptions{
		"all": {}, "label": {Labels: mustSelector("app in (1,2),app!=2")}, "index": {Fields: fields.ParseSelectorOrDie("name=3")}, "scan": {Fields: fields.ParseSelectorOrDie("spec.nodeName=node-3")},
	} {
		lists := func() []runtime.Object {
			all := []runtime.Object{&metav1.PartialObjectMetadataList{}, &unstructured.UnstructuredList{}}
			if kind == podKind {
				all = append(all, &corev1.PodList{})
			}
			return all
		}
		want, got := lists(), lists()
		for i := range want {
			must(plain.List(t.Context(), kind, options, want[i]))
			must(compressed.List(t.Context(), kind, options, got[i]))
			same(t, fmt.Sprintf("%s as %T", name, want[i]), want[i], got[i])
		}
	}
	for range 2 { // decoded, and from what was decoded
		want, _ := plain.Peek(kind, key("a", "4"))
		got, _ := compressed.Peek(kind, key("a", "4"))
		same(t, "managedFields", want.ManagedFields(), got.ManagedFields())
		same(t, "UID", want.UID(), got.UID())
		same(t, "resourceVersion", want.ResourceVersion(), got.ResourceVersion())
	}
}
