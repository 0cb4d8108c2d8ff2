package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// Patch computes the change that [Client.Patch] sends.
type Patch interface {
	// Type is the patch's media type.
	Type() types.PatchType
	// Data is the patch that turns what the patch was made from into obj.
	Data(obj Object) ([]byte, error)
}

// RawPatch is a patch of that type, as it is: for example types.JSONPatchType with the operations
// of RFC 6902.
func RawPatch(t types.PatchType, data []byte) Patch { return rawPatch{t, data} }

type rawPatch struct {
	patchType types.PatchType
	data      []byte
}

func (p rawPatch) Type() types.PatchType       { return p.patchType }
func (p rawPatch) Data(Object) ([]byte, error) { return p.data, nil }

// MergeFrom is the JSON merge patch that turns base into the object passed to Patch. base must not
// change any more: change a copy. A list is replaced as a whole, so for lists that others write
// too, use [MergeFromWithOptimisticLock].
func MergeFrom(base Object) Patch { return diff{base: base, patchType: types.MergePatchType} }

// MergeFromWithOptimisticLock is [MergeFrom] that fails with a conflict unless the object is still
// at base's resourceVersion.
func MergeFromWithOptimisticLock(base Object) Patch {
	return diff{base: base, patchType: types.MergePatchType, lock: true}
}

// StrategicMergeFrom is like [MergeFrom] but merges lists by their keys. Only typed objects of
// built-in kinds know how.
func StrategicMergeFrom(base Object) Patch {
	return diff{base: base, patchType: types.StrategicMergePatchType}
}

// StrategicMergeFromWithOptimisticLock is [StrategicMergeFrom] that fails with a conflict unless
// the object is still at base's resourceVersion.
func StrategicMergeFromWithOptimisticLock(base Object) Patch {
	return diff{base: base, patchType: types.StrategicMergePatchType, lock: true}
}

// diff is the patch from base to another object.
type diff struct {
	base      Object
	patchType types.PatchType
	lock      bool
}

func (d diff) Type() types.PatchType { return d.patchType }

func (d diff) Data(obj Object) ([]byte, error) {
	before, err := json.Marshal(d.base)
	if err != nil {
		return nil, fmt.Errorf("encode the base: %w", err)
	}
	after, err := json.Marshal(obj)
	if err != nil {
		return nil, fmt.Errorf("encode the object: %w", err)
	}
	data, err := d.between(before, after, obj)
	if err != nil || !d.lock || isEmptyPatch(d.patchType, data) {
		return data, err
	}
	revision := d.base.GetResourceVersion()
	if revision == "" {
		return nil, errors.New("an optimistic lock needs a base with a resourceVersion")
	}
	return requireRevision(d.patchType, data, revision)
}

func (d diff) between(before, after []byte, obj Object) ([]byte, error) {
	if d.patchType == types.StrategicMergePatchType {
		if !isTyped(obj) {
			return nil, fmt.Errorf("%T does not know how its lists are merged: use MergeFrom", obj)
		}
		return strategicpatch.CreateTwoWayMergePatch(before, after, obj)
	}
	return jsonmergepatch.CreateThreeWayJSONMergePatch(before, after, before)
}

// isEmptyPatch reports whether a patch changes nothing.
func isEmptyPatch(t types.PatchType, data []byte) bool {
	var compact bytes.Buffer
	if json.Compact(&compact, data) != nil {
		return false
	}
	switch t {
	case types.JSONPatchType:
		return compact.String() == "[]"
	case types.MergePatchType, types.StrategicMergePatchType:
		return compact.String() == "{}"
	}
	return false
}

// requireRevision makes a patch fail with a conflict unless the object is at that revision: a
// write that carries a resourceVersion is a conditional one.
func requireRevision(t types.PatchType, data []byte, revision string) ([]byte, error) {
	if t == types.JSONPatchType {
		var operations []any
		if err := json.Unmarshal(data, &operations); err != nil {
			return nil, fmt.Errorf("the patch is no list of operations: %w", err)
		}
		return json.Marshal(append(operations, map[string]any{
			"op": "replace", "path": "/metadata/resourceVersion", "value": revision,
		}))
	}
	var patch map[string]any
	if err := json.Unmarshal(data, &patch); err != nil {
		return nil, fmt.Errorf("the patch is no object: %w", err)
	}
	metadata, ok := patch["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		patch["metadata"] = metadata
	}
	metadata["resourceVersion"] = revision
	return json.Marshal(patch)
}
