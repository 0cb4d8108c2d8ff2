package store

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
)

// Decorator returns what makes a generic registry keep its objects in this store. The destroy function of each storage ends
// its watches.
func (s *Store) Decorator() generic.StorageDecorator {
	return func(
		config *storagebackend.ConfigForResource,
		resourcePrefix string,
		_ func(obj runtime.Object) (string, error),
		newFunc, newListFunc func() runtime.Object,
		_ storage.AttrFunc,
		_ storage.IndexerFuncs,
		_ *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		return s.Interface(Resource{
			GroupResource: config.GroupResource,
			Codec:         config.Codec,
			Prefix:        resourcePrefix,
			NewFunc:       newFunc,
			NewListFunc:   newListFunc,
			Transformer:   config.Transformer,
		})
	}
}
