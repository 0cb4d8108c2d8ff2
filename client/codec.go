package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	serializerjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

// codec encodes what is sent and decodes what is answered: protobuf for Go types of built-in
// kinds, JSON for all else, and metadata alone for PartialObjectMetadata.
type codec struct {
	scheme       *runtime.Scheme
	json, proto  runtime.Serializer
	metaProto    runtime.Serializer // knows PartialObjectMetadata and Status only
	negotiated   runtime.NegotiatedSerializer
	builtInKinds *runtime.Scheme
}

func newCodec(scheme *runtime.Scheme) (*codec, error) {
	metaScheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(metaScheme); err != nil {
		return nil, fmt.Errorf("register metadata kinds: %w", err)
	}
	metav1.AddToGroupVersion(metaScheme, schema.GroupVersion{Version: "v1"})
	return &codec{
		scheme: scheme,
		json: serializerjson.NewSerializerWithOptions(
			serializerjson.DefaultMetaFactory, scheme, scheme, serializerjson.SerializerOptions{}),
		proto:        protobuf.NewSerializer(scheme, scheme),
		metaProto:    protobuf.NewSerializer(metaScheme, metaScheme),
		negotiated:   serializer.NewCodecFactory(metaScheme).WithoutConversion(),
		builtInKinds: clientgoscheme.Scheme,
	}, nil
}

const (
	acceptBoth     = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	asMetadata     = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	asMetadataList = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

// accept says in which languages the answer can be read into obj.
func (c *codec) accept(obj runtime.Object, gvk schema.GroupVersionKind) string {
	switch obj.(type) {
	case *metav1.PartialObjectMetadata:
		return runtime.ContentTypeProtobuf + asMetadata + "," + runtime.ContentTypeJSON + asMetadata + "," + runtime.ContentTypeJSON
	case *metav1.PartialObjectMetadataList:
		return runtime.ContentTypeProtobuf + asMetadataList + "," + runtime.ContentTypeJSON + asMetadataList + "," + runtime.ContentTypeJSON
	}
	if c.speaksProtobuf(obj, gvk) {
		return acceptBoth
	}
	return runtime.ContentTypeJSON
}

// speaksProtobuf reports whether both the server and the Go type know protobuf. Servers offer it
// for built-in kinds alone, so a type's methods are not enough.
func (c *codec) speaksProtobuf(obj runtime.Object, gvk schema.GroupVersionKind) bool {
	_, ok := obj.(interface{ Unmarshal([]byte) error })
	return ok && isTyped(obj) && c.builtInKinds.Recognizes(gvk)
}

// encode sets the kind of obj and encodes it.
func (c *codec) encode(obj runtime.Object, gvk schema.GroupVersionKind) (body []byte, contentType string, err error) {
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	if c.speaksProtobuf(obj, gvk) {
		var out bytes.Buffer
		if err := c.proto.Encode(obj, &out); err != nil {
			return nil, "", fmt.Errorf("encode %T: %w", obj, err)
		}
		return out.Bytes(), runtime.ContentTypeProtobuf, nil
	}
	body, err = json.Marshal(obj)
	if err != nil {
		return nil, "", fmt.Errorf("encode %T: %w", obj, err)
	}
	return body, runtime.ContentTypeJSON, nil
}

// decode returns a new object of the type of like. It reports false when the body is that of
// another kind, as the Status that answers a Delete.
func (c *codec) decode(body []byte, contentType string, like runtime.Object, gvk schema.GroupVersionKind) (runtime.Object, bool, error) {
	fresh := newLike(like)
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, false, fmt.Errorf("content type %q of the answer: %w", contentType, err)
	}
	same, err := c.decodeInto(body, media, fresh, gvk)
	if err != nil {
		return nil, false, fmt.Errorf("decode the answer into %T: %w", like, err)
	}
	if same {
		setKind(fresh, gvk)
	}
	return fresh, same, nil
}

func (c *codec) decodeInto(body []byte, media string, fresh runtime.Object, gvk schema.GroupVersionKind) (same bool, err error) {
	var serializer runtime.Decoder
	switch {
	case isMetadata(fresh) && media == runtime.ContentTypeProtobuf:
		gvk, serializer = fresh.GetObjectKind().GroupVersionKind(), c.metaProto
	case media == runtime.ContentTypeProtobuf:
		serializer = c.proto
	case isMetadata(fresh):
		// The server may know no such view of the object and answer with all of it.
		err := json.Unmarshal(body, fresh)
		return fresh.GetObjectKind().GroupVersionKind().Kind != "Status", err
	case isTyped(fresh):
		serializer = c.json
	default:
		serializer = unstructured.UnstructuredJSONScheme
	}
	out, actual, err := serializer.Decode(body, &gvk, fresh)
	if runtime.IsNotRegisteredError(err) && actual != nil && actual.Kind == "Status" {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return out == fresh && (isMetadata(fresh) || actual.Kind == gvk.Kind), nil
}

// setKind gives an object, or a list and its items, the kind gvk (of the object, or of the list).
func setKind(obj runtime.Object, gvk schema.GroupVersionKind) {
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	if !meta.IsListType(obj) {
		return
	}
	item := gvk
	item.Kind = gvk.Kind[:len(gvk.Kind)-len("List")]
	// The function never fails, and a list type has items.
	_ = meta.EachListItem(obj, func(o runtime.Object) error {
		o.GetObjectKind().SetGroupVersionKind(item)
		return nil
	})
}

// newLike returns a new object of obj's type.
func newLike(obj runtime.Object) runtime.Object {
	return reflect.New(reflect.TypeOf(obj).Elem()).Interface().(runtime.Object)
}

// assign makes *into equal *from, which has the same type and is not used again.
func assign(into, from runtime.Object) {
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(from).Elem())
}
