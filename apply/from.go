package apply

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// serverMetadata are the fields of metadata that no client may own.
var serverMetadata = [...]string{
	"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp",
	"generation", "managedFields", "resourceVersion", "selfLink",
}

// From returns the fields of obj to apply to the object itself: all but the status. The kind is
// gvk. An unstructured object is taken as it is, except for its status and the metadata that the
// server sets: its author wrote every field on purpose.
func From(obj runtime.Object, gvk schema.GroupVersionKind) (*unstructured.Unstructured, error) {
	out, err := fieldsOf(obj, gvk)
	if err != nil {
		return nil, err
	}
	delete(out.Object, "status")
	return out, nil
}

// StatusFrom returns the fields of obj to apply to its status subresource: what identifies the
// object, and the status.
func StatusFrom(obj runtime.Object, gvk schema.GroupVersionKind) (*unstructured.Unstructured, error) {
	all, err := fieldsOf(obj, gvk)
	if err != nil {
		return nil, err
	}
	out := &unstructured.Unstructured{Object: map[string]any{}}
	out.SetGroupVersionKind(gvk)
	out.SetName(all.GetName())
	out.SetNamespace(all.GetNamespace())
	out.SetUID(all.GetUID())
	if status, ok := all.Object["status"]; ok {
		out.Object["status"] = status
	}
	return out, nil
}

// FromConfiguration returns the fields of one of client-go's apply configurations, which must name
// their kind, as the generated constructors do.
func FromConfiguration(configuration any) (*unstructured.Unstructured, error) {
	data, err := json.Marshal(configuration)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", configuration, err)
	}
	out := &unstructured.Unstructured{}
	if err := out.UnmarshalJSON(data); err != nil {
		return nil, fmt.Errorf("%T is no apply configuration with a kind: %w", configuration, err)
	}
	return out, nil
}

func fieldsOf(obj runtime.Object, gvk schema.GroupVersionKind) (*unstructured.Unstructured, error) {
	out := &unstructured.Unstructured{}
	switch typed := obj.(type) {
	case *unstructured.Unstructured:
		out.Object = runtime.DeepCopyJSON(typed.Object)
	default:
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err != nil {
			return nil, fmt.Errorf("convert %T: %w", obj, err)
		}
		quieten(reflect.ValueOf(obj), fields)
		out.Object = fields
	}
	out.SetGroupVersionKind(gvk)
	metadata, ok := out.Object["metadata"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%T has no metadata", obj)
	}
	for _, field := range serverMetadata {
		delete(metadata, field)
	}
	return out, nil
}

// quieten removes from the JSON form of a Go value what the value's author did not mean to say. It
// walks both in parallel, since JSON alone cannot tell the struct that was never touched from the
// pointer to an empty one.
func quieten(value reflect.Value, encoded any) {
	for value.Kind() == reflect.Pointer || value.Kind() == reflect.Interface {
		if value.IsNil() {
			return
		}
		value = value.Elem()
	}
	switch encoded := encoded.(type) {
	case map[string]any:
		switch value.Kind() {
		case reflect.Struct:
			quietenStruct(value, encoded)
		case reflect.Map:
			for entries := value.MapRange(); entries.Next(); {
				if key := entries.Key(); key.Kind() == reflect.String {
					quieten(entries.Value(), encoded[key.String()])
				}
			}
		}
	case []any:
		if value.Kind() != reflect.Slice || value.Len() != len(encoded) {
			return
		}
		for i := range encoded {
			quieten(value.Index(i), encoded[i])
		}
	}
}

func quietenStruct(value reflect.Value, encoded map[string]any) {
	if encodesItself(value.Type()) {
		return
	}
	for i := range value.NumField() {
		field := value.Type().Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		if name == "" && field.Anonymous || hasOption(options, "inline") {
			quieten(value.Field(i), encoded)
			continue
		}
		child, present := encoded[name]
		if !present {
			continue
		}
		if isNoise(value.Field(i), child, hasOption(options, "omitempty")) {
			delete(encoded, name)
		}
	}
}

// isNoise quietens the field, and reports whether nothing is left to say.
func isNoise(field reflect.Value, encoded any, omitempty bool) bool {
	if encoded == nil {
		return true
	}
	if field.Kind() != reflect.Struct {
		quieten(field, encoded)
		return false
	}
	if omitempty && field.IsZero() {
		return true
	}
	quieten(field, encoded)
	object, ok := encoded.(map[string]any)
	return ok && len(object) == 0 && !encodesItself(field.Type())
}

func hasOption(options, option string) bool {
	for have := range strings.SplitSeq(options, ",") {
		if have == option {
			return true
		}
	}
	return false
}

// encodesItself reports whether the type's JSON is not that of its fields, as for a Quantity or a
// RawExtension.
func encodesItself(t reflect.Type) bool {
	return t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler)
}

var marshaler = reflect.TypeFor[json.Marshaler]()
