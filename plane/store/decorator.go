package store

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
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

// RESTOptions returns the options of the resources that f knows, to be kept in this store.
func (s *Store) RESTOptions(f serverstorage.StorageFactory) generic.RESTOptionsGetter {
	return restOptions{s, f}
}

type restOptions struct {
	store   *Store
	factory serverstorage.StorageFactory
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (o restOptions) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	config, err := o.factory.NewConfig(resource, example)
	if err != nil {
		return generic.RESTOptions{}, err
	}
	return o.store.options(config, o.factory.ResourcePrefix(resource)), nil
}

// CustomResourceRESTOptions returns the options of custom resources, to be kept in this store as JSON.
func (s *Store) CustomResourceRESTOptions() generic.RESTOptionsGetter { return customOptions{s} }

type customOptions struct{ store *Store }

// GetRESTOptions implements generic.RESTOptionsGetter.
func (o customOptions) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	config := storagebackend.NewDefaultConfig("", unstructured.UnstructuredJSONScheme).ForResource(resource)
	return o.store.options(config, resource.Group+"/"+resource.Resource), nil
}

func (s *Store) options(config *storagebackend.ConfigForResource, prefix string) generic.RESTOptions {
	return generic.RESTOptions{
		StorageConfig:           config,
		Decorator:               s.Decorator(),
		EnableGarbageCollection: true,
		DeleteCollectionWorkers: 1,
		ResourcePrefix:          prefix,
	}
}
