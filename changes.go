package setpoint

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/filter"
	"github.com/setpoint-dev/setpoint/queue"
)

// wideFanOut is from how many requests on a change that brings them is warned of.
const wideFanOut = 1000

// delivery is a change on its way to a source, and the requests that may come of
// it.
type delivery struct {
	filter.Change
	wanted func(Request) bool
}

// add puts a request into the queue because of a change.
func (c *site) add(r Request, s string, change delivery) {
	if !change.wanted(r) {
		return
	}
	to := c.siteFor(r)
	if to == nil {
		return
	}
	class := queue.Fresh
	if change.Initial {
		class = queue.Listed
	}
	to.loops.woken(r, change.Change)
	object := change.Latest().Meta()
	to.queue.Add(r, class, queue.Cause{
		Source:  s,
		Kind:    kindName(change.Kind),
		Object:  c.requestFor(object).String(),
		Verb:    change.Verb(),
		Version: object.ResourceVersion,
	})
}

// requestFor returns the request that names an object of the site's cluster.
func (c *site) requestFor(object *metav1.ObjectMeta) Request {
	return Request{c.cluster.name, object.Namespace, object.Name}
}

// onPrimary is told of changes of primary objects.
func (c *site) onPrimary(_ context.Context, change delivery) {
	if !pauseChanged(change.Change) && !passes(c.filters, change.Change) {
		return
	}
	c.add(c.requestFor(change.Latest().Meta()), "For", change)
}

// passes reports whether all filters let a change pass. Deletions always do.
func passes(filters []filter.Filter, change filter.Change) bool {
	return change.Deletion() || filter.And(filters...)(change)
}

func objectName(object *metav1.ObjectMeta) string { return RequestFor(object).String() }

// kindName returns a kind as "Deployment.apps", and "Pod" in the core group.
func kindName(gvk schema.GroupVersionKind) string { return gvk.GroupKind().String() }

// onOwned is told of changes of objects that may have an owner. An object that
// changes its owner wakes both.
func (c *site) onOwned(change delivery) {
	var woken Request
	for _, state := range []*filter.State{change.New, change.Old} {
		if state == nil {
			continue
		}
		if r, ok := c.ownerOf(state.Meta()); ok && r != woken {
			c.add(r, "Owns", change)
			woken = r
		}
	}
}

// ownerOf returns the request for the primary object that controls an object.
// An owner that is known under its name by another UID is another object, which
// the change does not concern. One that is not known may be about to appear.
func (c *site) ownerOf(object *metav1.ObjectMeta) (Request, bool) {
	ref := metav1.GetControllerOfNoCopy(object)
	if ref == nil || ref.Kind != c.kind.Kind {
		return Request{}, false
	}
	if gv, err := schema.ParseGroupVersion(ref.APIVersion); err != nil || gv.Group != c.kind.Group {
		return Request{}, false
	}
	owner := Request{Cluster: c.cluster.name, Name: ref.Name}
	if c.namespaced {
		owner.Namespace = object.Namespace
	}
	entry, known := c.cluster.cache.Peek(c.kind, owner.Key())
	return owner, !known || entry.UID() == ref.UID
}

// onWatched is told of changes of objects that are mapped to requests. They are
// passed in the form that like has.
func (c *site) onWatched(ctx context.Context, change delivery, like client.Object, requests func(context.Context, client.Object) []Request) {
	woken := map[Request]bool{}
	for _, state := range []*filter.State{change.New, change.Old} {
		if state == nil {
			continue
		}
		obj, err := decode(state, change.Kind, like)
		if err != nil {
			c.log.Error("a change cannot be mapped to requests", "kind", kindName(change.Kind),
				"object", objectName(state.Meta()), "error", err)
			continue
		}
		for _, r := range requests(ctx, obj) {
			if !woken[r] {
				woken[r] = true
				c.add(r, "Watches", change)
			}
		}
	}
	c.metrics.FanOut(kindName(change.Kind), len(woken))
	if len(woken) >= wideFanOut {
		c.log.Warn("one change causes very many reconciles", "kind", kindName(change.Kind),
			"object", objectName(change.Latest().Meta()), "requests", len(woken))
	}
}

// decode returns the object of a state in the form that like has.
func decode(state *filter.State, gvk schema.GroupVersionKind, like client.Object) (client.Object, error) {
	if _, ok := like.(*metav1.PartialObjectMetadata); ok {
		obj := &metav1.PartialObjectMetadata{ObjectMeta: *state.Meta()}
		obj.SetGroupVersionKind(gvk)
		return obj, nil
	}
	obj, err := state.Object()
	if err != nil {
		return nil, err
	}
	_, want := like.(*unstructured.Unstructured)
	if _, is := obj.(*unstructured.Unstructured); want && !is {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err != nil {
			return nil, err
		}
		converted := &unstructured.Unstructured{Object: content}
		converted.SetGroupVersionKind(gvk)
		return converted, nil
	}
	typed, ok := obj.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T has no metadata", obj)
	}
	return typed, nil
}
