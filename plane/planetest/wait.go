package planetest

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// Cluster is what to wait in: a *plane.Plane, or another cluster, so that the same
// test can run against both.
type Cluster interface {
	// RESTConfig reaches the cluster's API server.
	RESTConfig() *rest.Config
}

// Timeout is how long Wait and WaitGone wait. What takes longer than that on a plane
// without delays does not happen.
const Timeout = 30 * time.Second

// Wait waits until a condition holds for the object that has the namespace and name
// of obj, and returns the state for which it held. An object that does not exist is
// waited for. obj itself is not changed.
//
// The kind comes from obj's TypeMeta, if set; otherwise from its Go type: from
// client-go's scheme, or else the one served kind of that name.
func Wait[T Object](t testing.TB, c Cluster, obj T, holds func(T) bool) T {
	t.Helper()
	return WaitFor(t, c, Timeout, obj, holds)
}

// WaitFor is Wait with a time of its own.
func WaitFor[T Object](t testing.TB, c Cluster, timeout time.Duration, obj T, holds func(T) bool) T {
	t.Helper()
	var met T
	watchObject(t, c, timeout, obj, "a condition", func(state *unstructured.Unstructured) bool {
		if state == nil {
			return false
		}
		typed, err := convert[T](state)
		if err != nil {
			t.Fatal(err)
		}
		if !holds(typed) {
			return false
		}
		met = typed
		return true
	})
	return met
}

// WaitGone waits until the object that has the namespace and name of obj does not
// exist. If obj has a UID, another object of that name counts as gone.
func WaitGone(t testing.TB, c Cluster, obj Object) {
	t.Helper()
	watchObject(t, c, Timeout, obj, "the deletion", func(state *unstructured.Unstructured) bool {
		return state == nil || other(state.GetUID(), obj.GetUID())
	})
}

func other(uid, wanted types.UID) bool { return wanted != "" && uid != wanted }

// watchObject shows done every state of an object, nil while it does not exist,
// until done returns true.
func watchObject(t testing.TB, c Cluster, timeout time.Duration, obj Object, what string, done func(*unstructured.Unstructured) bool) {
	t.Helper()
	target, err := newTarget(c.RESTConfig(), obj)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	w := &waiter{target: target, done: done, begin: time.Now()}
	for ctx.Err() == nil {
		finished, err := w.follow(ctx)
		if finished {
			return
		}
		if err != nil && ctx.Err() == nil {
			t.Fatalf("waiting for %s of %s: %v", what, target, err)
		}
	}
	t.Fatalf("%s of %s did not come in %s\n%s", what, target, time.Since(w.begin).Round(time.Millisecond), w.report())
}

// waiter follows one object.
type waiter struct {
	target *target
	done   func(*unstructured.Unstructured) bool
	begin  time.Time

	last   *unstructured.Unstructured // nil: does not exist
	states int
}

// see takes a state in.
func (w *waiter) see(state *unstructured.Unstructured) bool {
	w.last = state
	w.states++
	return w.done(state)
}

// follow lists and watches until done, until ctx ends or until the watch does.
func (w *waiter) follow(ctx context.Context) (bool, error) {
	options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", w.target.name).String()}
	list, err := w.target.client.List(ctx, options)
	if err != nil {
		return false, err
	}
	var present *unstructured.Unstructured
	if len(list.Items) > 0 {
		present = &list.Items[0]
	}
	if w.see(present) {
		return true, nil
	}
	options.ResourceVersion = list.GetResourceVersion()
	changes, err := w.target.client.Watch(ctx, options)
	if err != nil {
		return false, err
	}
	defer changes.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, nil
		case event, open := <-changes.ResultChan():
			if !open {
				return false, nil
			}
			finished, err := w.take(event)
			if finished || err != nil {
				return finished, err
			}
		}
	}
}

func (w *waiter) take(event watch.Event) (bool, error) {
	switch event.Type {
	case watch.Added, watch.Modified:
		return w.see(event.Object.(*unstructured.Unstructured)), nil
	case watch.Deleted:
		return w.see(nil), nil
	case watch.Error:
		err := apierrors.FromObject(event.Object)
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			return false, nil // list again
		}
		return false, err
	default:
		return false, nil
	}
}
