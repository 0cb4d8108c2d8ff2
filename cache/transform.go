package cache

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// transform changes an object as the options say and encodes it again.
func (f *form) transform(o *object, change func(runtime.Object) error) (*object, error) {
	native, err := f.native(o)
	if err != nil {
		return nil, err
	}
	if err := change(native); err != nil {
		return nil, fmt.Errorf("transform %s %s: %w", f.gvk.Kind, o.key, err)
	}
	data, err := f.encode(o.encoding, native)
	if err != nil {
		return nil, fmt.Errorf("encode the transformed %s %s: %w", f.gvk.Kind, o.key, err)
	}
	data = f.compact(o.encoding, data)
	now := &object{data: data + o.managed(), size: uint32(len(data)), encoding: o.encoding, key: o.key}
	metadata, err := now.metadata()
	if err != nil {
		return nil, err
	}
	h, err := o.encoding.header(metadata)
	if err != nil {
		return nil, err
	}
	if h.key() != o.key || h.uid != o.uid || h.resourceVersion != o.version {
		return nil, fmt.Errorf("transform %s %s: it changed the object's name, namespace, UID or resourceVersion", f.gvk.Kind, o.key)
	}
	now.uid, now.version = h.uid, h.resourceVersion
	return now, nil
}

// encode writes an object in the encoding it came in.
func (f *form) encode(enc encoding, obj runtime.Object) (string, error) {
	var data []byte
	var err error
	if u, ok := obj.(*unstructured.Unstructured); ok {
		data, err = json.Marshal(u.Object)
	} else if enc == encodingProto {
		data, err = obj.(protoMessage).Marshal()
	} else {
		data, err = json.Marshal(obj)
	}
	return string(data), err
}
