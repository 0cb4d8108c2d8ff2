package workload

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var widgets = &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"}}

func served(names ...string) []*metav1.APIResourceList {
	list := &metav1.APIResourceList{GroupVersion: "example.com/v1"}
	for _, name := range names {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: name, Namespaced: name != "nodes"})
	}
	return []*metav1.APIResourceList{list}
}

func namesOf(lists []*metav1.APIResourceList) []string {
	var names []string
	for _, list := range lists {
		for _, resource := range list.APIResources {
			names = append(names, resource.Name)
		}
	}
	return names
}

// newKnown is a resources that knows these and asks nobody.
func newKnown(names ...string) *resources {
	return &resources{
		current: snapshot{revision: 1, preferred: served(names...)},
		next:    make(chan struct{}), changed: make(chan struct{}, 1),
		monitors: newMonitors(nil, nil),
		deleted:  map[schema.GroupResource]bool{}, gone: map[schema.GroupResource]bool{},
	}
}

func (r *resources) publish(names ...string) { r.take(served(names...), nil) }

func expect(t *testing.T, f *follower, want ...string) {
	t.Helper()
	lists, err := f.ServerPreferredResources()
	if got := namesOf(lists); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

// A follower is told at once what there is, and then of changes only.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newKnown("pods")
		ctx, cancel := context.WithCancel(t.Context())
		f := r.follow(ctx)
		expect(t, f, "pods")

		var got []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			lists, _ := f.ServerPreferredResources()
			got = namesOf(lists)
		}()
		synctest.Wait()
		select {
		case <-done:
			t.Fatalf("answered %v although nothing had changed", got)
		default:
		}
		r.publish("pods", "widgets")
		<-done
		if !slices.Equal(got, []string{"pods", "widgets"}) {
			t.Errorf("got %v after widgets came", got)
		}
		cancel()
		if _, err := f.ServerPreferredResources(); err == nil {
			t.Error("waited on without an error when the context had ended")
		}
	})
}

// A resource whose definition was deleted and created again between two looks is
// missing once, and then there.
func TestFollowReturn(t *testing.T) {
	r := newKnown("pods", "widgets")
	f, late := r.follow(t.Context()), r.follow(t.Context())
	expect(t, f, "pods", "widgets")

	r.definitionDeleted(widgets)
	r.publish("pods")
	r.definitionAdded(widgets)
	r.publish("pods", "widgets")
	expect(t, f, "pods")
	expect(t, f, "pods", "widgets")
	expect(t, late, "pods", "widgets") // never had the first ones

	r.publish("pods", "widgets", "gadgets")
	expect(t, f, "pods", "widgets", "gadgets")
}

func TestFollowNamespaced(t *testing.T) {
	lists, err := newKnown("nodes", "pods").follow(t.Context()).namespaced()
	if got := namesOf(lists); err != nil || !slices.Equal(got, []string{"pods"}) {
		t.Errorf("got %v, %v, want pods", got, err)
	}
}

// Discovery lags behind the deletion of a definition.
func TestGoneResource(t *testing.T) {
	r := newKnown("pods", "widgets")
	f := r.follow(t.Context())
	expect(t, f, "pods", "widgets")

	r.definitionDeleted(widgets)
	if len(r.changed) != 1 {
		t.Error("discovery is not asked again")
	}
	r.publish("pods", "widgets")
	expect(t, f, "pods")
	if len(r.gone) != 1 {
		t.Error("widgets are taken for away although discovery has them")
	}
	r.publish("pods")
	if len(r.gone) != 0 {
		t.Error("discovery is waited for although it has no widgets")
	}
	if f.seen != r.current.revision || f.behind {
		t.Error("there is news when nothing has changed")
	}
}
