package client

import "k8s.io/apimachinery/pkg/types"

// Patch computes the change that [Client.Patch] sends.
type Patch interface {
	// Type is the patch's media type.
	Type() types.PatchType
	// Data is the patch that turns what the patch was made from into obj.
	Data(obj Object) ([]byte, error)
}

// RawPatch is a patch of that type, as it is.
func RawPatch(t types.PatchType, data []byte) Patch { return nil }

// MergeFrom is the JSON merge patch that turns base into the object passed to Patch. Lists are replaced
// as a whole, so for lists that others write too, use [MergeFromWithOptimisticLock].
// It keeps base: change a copy.
func MergeFrom(base Object) Patch { return nil }

// MergeFromWithOptimisticLock is [MergeFrom] that fails with a conflict unless the object is still at base's resourceVersion.
func MergeFromWithOptimisticLock(base Object) Patch { return nil }

// StrategicMergeFrom is like [MergeFrom] but merges lists by their keys. Only built-in kinds know it.
func StrategicMergeFrom(base Object) Patch { return nil }

// StrategicMergeFromWithOptimisticLock is [StrategicMergeFrom] with base's resourceVersion as a precondition.
func StrategicMergeFromWithOptimisticLock(base Object) Patch { return nil }
