package store

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
)

func (f *fixture) watchLabel(t *testing.T, selector string) watch.Interface {
	t.Helper()
	label, err := labels.Parse(selector)
	if err != nil {
		t.Fatal(err)
	}
	w, err := f.Watch(t.Context(), "/pods/", storage.ListOptions{ResourceVersion: "1", Recursive: true, Predicate: storage.SelectionPredicate{
		Label: label, GetAttrs: storage.DefaultNamespaceScopedAttr,
	}})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestSharedEvents: what a watch gets depends on its predicate only, and not on who else watches.
func TestSharedEvents(t *testing.T) {
	for _, copies := range []int{1, shareFrom} {
		t.Run(fmt.Sprintf("each %d times", copies), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, Config{})
				var all, ones, twos []watch.Interface
				for range copies {
					all = append(all, f.watchLabel(t, ""))
				}
				for range copies / shareFrom { // alone, the others would share
					ones = append(ones, f.watchLabel(t, "v=1"))
					twos = append(twos, f.watchLabel(t, "v=2"))
				}
				f.create(t, pod("a"), 0)       // 2
				f.label(t, pod("a"), "1", nil) // 3
				f.label(t, pod("a"), "2", nil) // 4
				f.delete(t, pod("a"))          // 5
				for _, w := range all {
					expect(t, w, "ADDED a@2", "MODIFIED a@3", "MODIFIED a@4", "DELETED a@5")
				}
				for _, w := range ones {
					expect(t, w, "ADDED a@3", "DELETED a@4")
				}
				for _, w := range twos {
					expect(t, w, "ADDED a@4", "DELETED a@5")
				}
			})
		})
	}
}

// TestSharedObject: it is encoded once for each encoder, and nobody can change it.
func TestSharedObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		p := pod("a")
		p.Labels = map[string]string{"v": "1"}
		want := f.create(t, p, 0)
		var objects []runtime.Object
		for range 2 * shareFrom {
			objects = append(objects, (<-f.watchLabel(t, "").ResultChan()).Object)
		}
		encodings := 0
		encode := func(obj runtime.Object, w io.Writer) error {
			encodings++
			obj.GetObjectKind().SetGroupVersionKind(example.SchemeGroupVersion.WithKind("Pod"))
			return f.codec.Encode(obj, w)
		}
		var outputs []string
		for _, obj := range objects[shareFrom:] { // the first ones had nobody to share with
			c := obj.(runtime.CacheableObject)
			for range 2 {
				var out bytes.Buffer
				if err := c.CacheEncode("an encoder", encode, &out); err != nil {
					t.Fatal(err)
				}
				outputs = append(outputs, out.String())
			}
			m, err := meta.Accessor(obj)
			if err != nil || m.GetResourceVersion() != want.ResourceVersion {
				t.Errorf("metadata %v, %v", m, err)
			}
			m.GetLabels()["v"] = "spoilt"
			m.SetName("spoilt")
			obj.GetObjectKind().SetGroupVersionKind(example.SchemeGroupVersion.WithKind("Spoilt"))
			c.GetObject().(*example.Pod).Labels["v"] = "spoilt"
			obj.DeepCopyObject().(*example.Pod).Labels["v"] = "spoilt"
			if diff := cmp.Diff(runtime.Object(want), c.GetObject()); diff != "" {
				t.Errorf("shared object was changed (-want +got):\n%s", diff)
			}
		}
		if encodings != 1 {
			t.Errorf("%d encodings of what should be one object, want 1", encodings)
		}
		for _, out := range outputs {
			if out != outputs[0] || out == "" {
				t.Errorf("outputs differ: %q, %q", outputs[0], out)
			}
		}
	})
}

// TestSharingIsSafe is for the race detector.
func TestSharingIsSafe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		const watches, writes = 10, 50
		var reading sync.WaitGroup
		for n := range watches {
			w := f.watchLabel(t, "")
			reading.Go(func() {
				for i := range writes {
					e := <-w.ResultChan()
					c, ok := e.Object.(runtime.CacheableObject)
					if !ok {
						t.Errorf("watch %d, event %d: %T is not shared", n, i, e.Object)
						return
					}
					id := runtime.Identifier(fmt.Sprint(n % 3))
					if err := c.CacheEncode(id, f.codec.Encode, io.Discard); err != nil {
						t.Error(err)
					}
					c.GetObject().(*example.Pod).Labels = nil
				}
			})
		}
		for i := range writes {
			f.create(t, pod(fmt.Sprint(i)), 0)
		}
		reading.Wait()
	})
}
