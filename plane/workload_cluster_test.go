package plane_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/setpoint-dev/setpoint/plane"
	"github.com/setpoint-dev/setpoint/plane/planetest"
)

// cluster is a plane and a namespace of the test's own.
type cluster struct {
	*testing.T
	kubernetes.Interface
	plane     *plane.Plane
	dynamic   dynamic.Interface
	namespace string
}

// inNamespace runs a subtest in its own namespace of the plane.
func inNamespace(t *testing.T, p *plane.Plane, name string, test func(c cluster)) {
	t.Run(name, func(t *testing.T) {
		client, err := kubernetes.NewForConfig(p.RESTConfig())
		if err != nil {
			t.Fatal(err)
		}
		dynamicClient, err := dynamic.NewForConfig(p.RESTConfig())
		if err != nil {
			t.Fatal(err)
		}
		c := cluster{T: t, Interface: client, plane: p, dynamic: dynamicClient, namespace: name}
		must(client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))(t)
		wait(c, "default", func(*corev1.ServiceAccount) bool { return true })
		test(c)
	})
}

func must[T any](value T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// object is a pointer to an API type.
type object[T any] interface {
	*T
	planetest.Object
}

func named[T any, P object[T]](c cluster, name string) P {
	o := P(new(T))
	o.SetNamespace(c.namespace)
	o.SetName(name)
	return o
}

// wait waits until the object of that name, in the test's namespace if its kind
// has one, satisfies ok.
func wait[T any, P object[T]](c cluster, name string, ok func(P) bool) P {
	c.Helper()
	return planetest.Wait(c.T, c.plane, named[T, P](c, name), ok)
}

// waitGone waits until there is no such object.
func waitGone[T any, P object[T]](c cluster, name string) {
	c.Helper()
	planetest.WaitGone(c.T, c.plane, named[T, P](c, name))
}

type watchFunc = func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)

// waitAny watches all objects until one satisfies ok, and returns that.
func waitAny[T any, P object[T]](c cluster, start watchFunc, ok func(P) bool) P {
	c.Helper()
	var found P
	await(c, start, func(e watch.Event) bool {
		object, isP := e.Object.(P)
		if e.Type != watch.Deleted && isP && ok(object) {
			found = object
		}
		return found != nil
	})
	return found
}

// await watches until an event satisfies ok.
func await(c cluster, start watchFunc, ok func(watch.Event) bool) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), planetest.Timeout)
	defer cancel()
	w, err := start(ctx, metav1.ListOptions{})
	if err != nil {
		c.Fatal(err)
	}
	defer w.Stop()
	var last watch.Event
	for last = range w.ResultChan() {
		if ok(last) {
			return
		}
	}
	c.Fatalf("waited %s in vain; the last event was %s of %v", planetest.Timeout, last.Type, last.Object)
}
