package client

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Object is any API object with metadata: a Go struct that the scheme knows,
// *unstructured.Unstructured, or *metav1.PartialObjectMetadata. The last two must carry their
// apiVersion and kind.
type Object interface {
	metav1.Object
	runtime.Object
}

// ObjectList is a list of objects, in the same three representations.
type ObjectList interface {
	metav1.ListInterface
	runtime.Object
}

// KeyOf is the namespace and name of obj.
func KeyOf(obj Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// KindOf is the kind of an object or of a list. A representation that can hold any kind says its
// own; a Go type is looked up in the scheme, and a type registered under several kinds must say
// which one is meant.
func KindOf(obj runtime.Object, scheme *runtime.Scheme) (schema.GroupVersionKind, error) {
	own := obj.GetObjectKind().GroupVersionKind()
	if !isTyped(obj) {
		if own.Version == "" || own.Kind == "" {
			return own, fmt.Errorf("%T has no apiVersion and kind: set them before the call", obj)
		}
		return own, nil
	}
	kinds, _, err := scheme.ObjectKinds(obj)
	if err != nil {
		return own, fmt.Errorf("the kind of %T is not known: add it to the client's scheme: %w", obj, err)
	}
	if len(kinds) == 1 {
		return kinds[0], nil
	}
	for _, kind := range kinds {
		if kind == own {
			return kind, nil
		}
	}
	return own, fmt.Errorf("%T stands for several kinds (%v): set its apiVersion and kind", obj, kinds)
}

// itemKindOf is the kind of the items of a list.
func itemKindOf(list runtime.Object, scheme *runtime.Scheme) (schema.GroupVersionKind, error) {
	gvk, err := KindOf(list, scheme)
	if err != nil {
		return gvk, err
	}
	kind, ok := strings.CutSuffix(gvk.Kind, "List")
	if !ok || kind == "" {
		return gvk, fmt.Errorf("%T has kind %q, but the kind of a list ends in List", list, gvk.Kind)
	}
	gvk.Kind = kind
	return gvk, nil
}

// isTyped tells a Go type of the scheme from the two representations of any kind.
func isTyped(obj runtime.Object) bool {
	if _, ok := obj.(runtime.Unstructured); ok {
		return false
	}
	return !isMetadata(obj)
}

func isMetadata(obj runtime.Object) bool {
	switch obj.(type) {
	case *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
		return true
	}
	return false
}

// target is what a request is about: the kind, its resource and the address of one object or of a
// collection.
type target struct {
	gvk     schema.GroupVersionKind
	mapping *meta.RESTMapping
	key     types.NamespacedName
}

func (t target) namespaced() bool { return t.mapping.Scope.Name() == meta.RESTScopeNameNamespace }

// String names the object or the collection in errors and logs.
func (t target) String() string {
	switch {
	case t.key.Name == "" && t.key.Namespace == "":
		return t.gvk.Kind
	case t.key.Name == "":
		return t.gvk.Kind + " in namespace " + t.key.Namespace
	case t.key.Namespace == "":
		return t.gvk.Kind + " " + t.key.Name
	}
	return t.gvk.Kind + " " + t.key.String()
}

// complete reports what the address of one object lacks.
func (t target) complete(unnamed bool) error {
	switch {
	case t.key.Name == "" && !unnamed:
		return fmt.Errorf("%s: the object needs a name", t)
	case t.namespaced() && t.key.Namespace == "":
		return fmt.Errorf("%s: the object needs a namespace", t)
	}
	return nil
}
