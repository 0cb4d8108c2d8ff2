package cache

import (
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/cache/internal/protodecode"
)

// form knows the Go side of a kind: how its stored bytes become objects.
type form struct {
	gvk        schema.GroupVersionKind
	apiVersion string
	keep       retention
	goType     reflect.Type         // the struct; nil when the scheme does not know the kind
	proto      *protodecode.Decoder // nil when the Go type has no protobuf
	packer     *packer              // nil when objects are not compressed
	decoded    decoded
}

// protoMessage is what the generated code of the built-in kinds has.
type protoMessage interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

func newForm(scheme *runtime.Scheme, gvk schema.GroupVersionKind, keep retention) (*form, error) {
	f := &form{gvk: gvk, apiVersion: gvk.GroupVersion().String(), keep: keep}
	if keep.compressed {
		f.packer = &packer{}
	}
	if !scheme.Recognizes(gvk) {
		return f, nil
	}
	model, err := scheme.New(gvk)
	if err != nil {
		return nil, fmt.Errorf("make a %s: %w", gvk.GroupKind(), err)
	}
	f.goType = reflect.TypeOf(model).Elem()
	if _, ok := model.(protoMessage); ok && hasProtoMetadata(f.goType) {
		if f.proto, err = protodecode.New(f.goType); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// hasProtoMetadata reports whether the type's own protobuf message has its metadata where they are looked for.
// A type that has its methods from a type it embeds has not.
func hasProtoMetadata(t reflect.Type) bool {
	for i := range t.NumField() {
		if f := t.Field(i); f.Type == reflect.TypeFor[metav1.ObjectMeta]() {
			return strings.HasPrefix(f.Tag.Get("protobuf"), "bytes,1,")
		}
	}
	return false
}

// compact leaves out of an object's bytes what says nothing.
func (f *form) compact(enc encoding, data string) string {
	if enc != encodingProto || f.proto == nil || f.keep.metadataOnly {
		return data
	}
	return stringOf(f.proto.Compact(make([]byte, 0, len(data)), data))
}

// decode fills into with a private copy of the object.
func (f *form) decode(o *object, into runtime.Object) error {
	switch into := into.(type) {
	case *metav1.PartialObjectMetadata:
		meta, err := f.meta(o)
		if err != nil {
			return err
		}
		into.ObjectMeta = *meta
		f.setKind(into)
		return nil
	case *unstructured.Unstructured:
		content, err := f.unstructured(o)
		if err != nil {
			return err
		}
		into.Object = content
		return nil
	}
	value := reflect.ValueOf(into)
	if err := f.accepts(value.Type().Elem()); err != nil {
		return err
	}
	return f.typed(o, into, value.Elem())
}

// accepts reports whether objects can be decoded into the Go type.
func (f *form) accepts(t reflect.Type) error {
	switch {
	case f.keep.metadataOnly:
		return fmt.Errorf("%w: only the metadata of %s is kept, not what %s needs", ErrNotCached, f.gvk.Kind, t)
	case f.goType != t:
		return fmt.Errorf("%s is cached as %v, not as %v: read it into that type, unstructured or metadata", f.gvk.GroupKind(), f.goType, t)
	}
	return nil
}

// typed decodes into a Go object, which is also given as the value it points to.
func (f *form) typed(o *object, into runtime.Object, value reflect.Value) error {
	if o.encoding == encodingProto {
		plain, err := f.packer.unpack(o)
		if err != nil {
			return f.failed(o, err)
		}
		if err := f.proto.Decode(plain.encoded(), into.(protoMessage)); err != nil {
			return f.failed(o, err)
		}
		f.setKind(into)
		return nil
	}
	model, err := f.typedModel(o)
	if err != nil {
		return err
	}
	value.Set(reflect.ValueOf(model.DeepCopyObject()).Elem())
	return nil
}

// typedModel returns the decoded form of a JSON object, which must not be changed. It is kept for the next read:
// JSON takes several times longer to decode than its result to copy.
func (f *form) typedModel(o *object) (runtime.Object, error) {
	if m := o.load(); m != nil && m.typed != nil {
		return m.typed, nil
	}
	model := reflect.New(f.goType).Interface().(runtime.Object)
	if err := f.unmarshal(o, model); err != nil {
		return nil, err
	}
	f.setKind(model)
	f.decoded.remember(o, func(m *models) { m.typed = model })
	return model, nil
}

// unstructured returns the object as a private tree.
func (f *form) unstructured(o *object) (map[string]any, error) {
	if f.keep.metadataOnly {
		return nil, fmt.Errorf("%w: only the metadata of %s is kept", ErrNotCached, f.gvk.Kind)
	}
	if o.encoding == encodingProto {
		return f.protoTree(o)
	}
	was := o.load()
	if was == nil || was.unstructured == nil {
		var tree map[string]any
		if err := f.unmarshal(o, &tree); err != nil {
			return nil, err
		}
		tree["apiVersion"], tree["kind"] = f.apiVersion, f.gvk.Kind
		was = f.decoded.remember(o, func(m *models) { m.unstructured = tree })
	}
	return runtime.DeepCopyJSON(was.unstructured), nil
}

// protoTree goes by way of the Go type: protobuf bytes do not name their fields. Fields that the Go type does
// not have are lost.
func (f *form) protoTree(o *object) (map[string]any, error) {
	value := reflect.New(f.goType)
	into := value.Interface().(runtime.Object)
	if err := f.typed(o, into, value.Elem()); err != nil {
		return nil, err
	}
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(into)
	if err != nil {
		return nil, f.failed(o, err)
	}
	return tree, nil
}

// unmarshal decodes a JSON object.
func (f *form) unmarshal(o *object, into any) error {
	plain, err := f.packer.unpack(o)
	if err != nil {
		return f.failed(o, err)
	}
	if err := jsonUnmarshal(plain.encoded(), into); err != nil {
		return f.failed(o, err)
	}
	return nil
}

// meta decodes a private copy of the metadata.
func (f *form) meta(o *object) (*metav1.ObjectMeta, error) {
	plain, err := f.packer.unpack(o)
	if err != nil {
		return nil, f.failed(o, err)
	}
	metadata, err := plain.metadata()
	if err != nil {
		return nil, f.failed(o, err)
	}
	meta, err := o.encoding.objectMeta(metadata)
	if err != nil {
		return nil, f.failed(o, err)
	}
	return meta, nil
}

// native decodes a private copy in the form that index functions and filters see: typed if the scheme knows the
// kind, else unstructured, or metadata where nothing else is kept.
func (f *form) native(o *object) (runtime.Object, error) {
	var into runtime.Object
	switch {
	case f.keep.metadataOnly:
		into = &metav1.PartialObjectMetadata{}
	case f.goType == nil:
		into = &unstructured.Unstructured{}
	default:
		into = reflect.New(f.goType).Interface().(runtime.Object)
	}
	return into, f.decode(o, into)
}

func (f *form) setKind(into runtime.Object) {
	kind := into.GetObjectKind()
	if typeMeta, ok := kind.(*metav1.TypeMeta); ok { // without building the apiVersion anew
		typeMeta.APIVersion, typeMeta.Kind = f.apiVersion, f.gvk.Kind
		return
	}
	kind.SetGroupVersionKind(f.gvk)
}

func (f *form) failed(o *object, err error) error {
	return fmt.Errorf("decode the cached %s %s: %w", f.gvk.Kind, o.key, err)
}
