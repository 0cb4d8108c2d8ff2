package cache

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// KindStatus is what the cache holds of a watched kind.
type KindStatus struct {
	Kind schema.GroupVersionKind
	// Objects is their number, Bytes the memory that they take, without indexes
	// and decoded forms.
	Objects int
	Bytes   int64
	// Err is what the watch last failed with, or nil while it is healthy.
	Err error
}

// Kinds returns the kinds that are watched, sorted by group, kind and version.
func (c *Cache) Kinds() []KindStatus {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var all []KindStatus
	for gvk, k := range c.kinds {
		if k.store != nil {
			objects, bytes := k.store.size()
			all = append(all, KindStatus{Kind: gvk, Objects: objects, Bytes: bytes, Err: k.store.err()})
		}
	}
	slices.SortFunc(all, func(a, b KindStatus) int {
		return cmp.Or(cmp.Compare(a.Kind.Group, b.Kind.Group), cmp.Compare(a.Kind.Kind, b.Kind.Kind), cmp.Compare(a.Kind.Version, b.Kind.Version))
	})
	return all
}
