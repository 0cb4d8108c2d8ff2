package client

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// This file tells the cache of objects that the caller knows of before the cache does: those it
// wrote, and those it read from the server in place of the cache. If such an object goes before a
// watch showed it, there would be no change to tell the caller.

// expect tells the cache, which shows the kind as another version perhaps, of an object in scope
// that a write was answered with.
func (o *ownWrites) expect(shown schema.GroupVersionKind, t target, obj metav1.Object, got answer) {
	if shown == t.gvk {
		o.cache.Expect(shown, got.contentType, got.body)
		return
	}
	o.expectRead(shown, meta.AsPartialObjectMetadata(obj))
}

// expectRead tells the cache of an object in scope that was read live.
func (o *ownWrites) expectRead(shown schema.GroupVersionKind, obj Object) {
	if entry, ok := o.cache.Peek(shown, KeyOf(obj)); ok && entry.UID() == obj.GetUID() {
		return
	}
	if data, err := json.Marshal(obj); err == nil { // it was decoded just now
		o.cache.Expect(shown, runtime.ContentTypeJSON, data)
	}
}
