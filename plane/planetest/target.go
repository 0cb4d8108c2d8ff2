package planetest

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// Object is a pointer to an API type, such as *appsv1.Deployment, or an
// *unstructured.Unstructured.
type Object interface {
	metav1.Object
	runtime.Object
}

// target is an object to wait for.
type target struct {
	gvk             schema.GroupVersionKind
	namespace, name string
	client          dynamic.ResourceInterface
	events          kubernetes.Interface
}

// String names the object in failures.
func (t *target) String() string {
	if t.namespace == "" {
		return t.gvk.Kind + " " + t.name
	}
	return t.gvk.Kind + " " + t.namespace + "/" + t.name
}

func newTarget(config *rest.Config, obj Object) (*target, error) {
	if obj.GetName() == "" {
		return nil, fmt.Errorf("a %T without a name cannot be waited for", obj)
	}
	found, err := find(config, obj)
	if err != nil {
		return nil, err
	}
	all, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	events, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	gvr := schema.GroupVersionResource{Group: found.Group, Version: found.Version, Resource: found.Name}
	t := &target{
		gvk:    schema.GroupVersionKind{Group: found.Group, Version: found.Version, Kind: found.Kind},
		name:   obj.GetName(),
		client: all.Resource(gvr),
		events: events,
	}
	if found.Namespaced {
		t.namespace = obj.GetNamespace()
		if t.namespace == "" {
			t.namespace = metav1.NamespaceDefault
		}
		t.client = all.Resource(gvr).Namespace(t.namespace)
	}
	return t, nil
}

// find looks the resource of obj up. Its Group and Version are filled in.
func find(config *rest.Config, obj Object) (metav1.APIResource, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return metav1.APIResource{}, err
	}
	gvk := obj.GetObjectKind().GroupVersionKind()
	if gvk.Empty() {
		if known, _, err := scheme.Scheme.ObjectKinds(obj); err == nil {
			gvk = known[0]
		}
	}
	if gvk.Empty() {
		return findByName(client, reflect.TypeOf(obj).Elem().Name())
	}
	list, err := client.ServerResourcesForGroupVersion(gvk.GroupVersion().String())
	if err != nil {
		return metav1.APIResource{}, fmt.Errorf("looking for the resource of %s: %w; is its CustomResourceDefinition applied?", gvk, err)
	}
	for _, r := range list.APIResources {
		if r.Kind == gvk.Kind && !strings.Contains(r.Name, "/") {
			r.Group, r.Version = gvk.Group, gvk.Version
			return r, nil
		}
	}
	return metav1.APIResource{}, fmt.Errorf("%s serves no %s", gvk.GroupVersion(), gvk.Kind)
}

// findByName takes the name of a Go type for a kind, as schemes do.
func findByName(client *discovery.DiscoveryClient, kind string) (metav1.APIResource, error) {
	lists, err := client.ServerPreferredResources()
	if err != nil {
		return metav1.APIResource{}, fmt.Errorf("looking for a kind %s: %w", kind, err)
	}
	var found []metav1.APIResource
	var names []string
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return metav1.APIResource{}, err
		}
		for _, r := range list.APIResources {
			if r.Kind == kind && !strings.Contains(r.Name, "/") {
				r.Group, r.Version = gv.Group, gv.Version
				found = append(found, r)
				names = append(names, list.GroupVersion)
			}
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return metav1.APIResource{}, fmt.Errorf("no kind %s is served; is its CustomResourceDefinition applied?", kind)
	default:
		return metav1.APIResource{}, fmt.Errorf("%s all have a kind %s: set TypeMeta in the object to say which is meant", strings.Join(names, ", "), kind)
	}
}

// convert makes a T of a state.
func convert[T Object](state *unstructured.Unstructured) (T, error) {
	var zero T
	if same, ok := any(state).(T); ok {
		return same, nil
	}
	kind := reflect.TypeFor[T]()
	if kind.Kind() != reflect.Pointer {
		return zero, errors.New("the object to wait for is not a pointer to a struct")
	}
	typed := reflect.New(kind.Elem()).Interface().(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(state.Object, typed); err != nil {
		return zero, fmt.Errorf("reading %s %s/%s as %T: %w", state.GetKind(), state.GetNamespace(), state.GetName(), typed, err)
	}
	return typed, nil
}
