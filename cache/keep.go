package cache

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Keep is a transform, for [Options.Transform], that keeps only the named fields of an object besides its
// metadata and drops the rest: "spec.nodeName", "status.phase", "spec.containers.image" (of every container).
// A name stands for all below it.
//
// Who reads such objects must know that the other fields look unset: an object read this way must not be
// written back with Update. Apply and patches are not affected.
func Keep(fields ...string) func(runtime.Object) error {
	kept := fieldTree{}
	for _, f := range slices.Sorted(slices.Values(fields)) { // "spec" comes before "spec.nodeName"
		kept.add(f)
	}
	return func(o runtime.Object) error {
		if u, ok := o.(*unstructured.Unstructured); ok {
			u.Object = kept.project(u.Object)
			return nil
		}
		tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return fmt.Errorf("look at the fields of %T: %w", o, err)
		}
		projected := reflect.New(reflect.TypeOf(o).Elem())
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(kept.project(tree), projected.Interface()); err != nil {
			return fmt.Errorf("keep fields of %T: %w", o, err)
		}
		reflect.ValueOf(o).Elem().Set(projected.Elem())
		return nil
	}
}

// fieldTree holds the names that are kept, and below each the names within it; an empty one keeps everything.
type fieldTree map[string]fieldTree

func (t fieldTree) add(path string) {
	for name := range strings.SplitSeq(path, ".") {
		below, known := t[name]
		switch {
		case !known:
			below = fieldTree{}
			t[name] = below
		case len(below) == 0:
			return // all of it is kept
		}
		t = below
	}
}

// project returns what is kept of an object, with its kind and metadata.
func (t fieldTree) project(object map[string]any) map[string]any {
	kept := t.fields(object)
	for _, name := range []string{"apiVersion", "kind", "metadata"} {
		if value, ok := object[name]; ok {
			kept[name] = value
		}
	}
	return kept
}

func (t fieldTree) fields(object map[string]any) map[string]any {
	kept := map[string]any{}
	for name, below := range t {
		if value, ok := object[name]; ok {
			kept[name] = below.value(value)
		}
	}
	return kept
}

func (t fieldTree) value(value any) any {
	if len(t) == 0 {
		return value
	}
	switch value := value.(type) {
	case map[string]any:
		return t.fields(value)
	case []any:
		kept := make([]any, len(value))
		for i, element := range value {
			kept[i] = t.value(element)
		}
		return kept
	}
	return value
}
