package apiserver

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/pkg/kubeapiserver"

	"github.com/setpoint-dev/setpoint/plane/store"
)

// restOptions gives every registry its storage on one store.
type restOptions struct {
	store   *store.Store
	factory serverstorage.StorageFactory
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (o restOptions) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	config, err := o.factory.NewConfig(resource, example)
	if err != nil {
		return generic.RESTOptions{}, err
	}
	return generic.RESTOptions{
		StorageConfig:           config,
		Decorator:               o.storage,
		EnableGarbageCollection: true,
		DeleteCollectionWorkers: 1,
		ResourcePrefix:          o.factory.ResourcePrefix(resource),
	}, nil
}

// storage is a generic.StorageDecorator that decorates nothing: it is the storage.
func (o restOptions) storage(
	config *storagebackend.ConfigForResource,
	resourcePrefix string,
	_ func(obj runtime.Object) (string, error),
	newFunc, newListFunc func() runtime.Object,
	_ storage.AttrFunc,
	_ storage.IndexerFuncs,
	_ *cache.Indexers,
) (storage.Interface, factory.DestroyFunc, error) {
	return o.store.Interface(store.Resource{
		GroupResource: config.GroupResource,
		Codec:         config.Codec,
		Prefix:        resourcePrefix,
		NewFunc:       newFunc,
		NewListFunc:   newListFunc,
	})
}

// builtinStorage keeps the built-in groups as kube-apiserver does: in protobuf, in
// the versions it stores, cohabitating resources such as both kinds of Events at one
// place.
func builtinStorage(s *store.Store, resources *serverstorage.ResourceConfig) (*serverstorage.DefaultStorageFactory, restOptions, error) {
	config := kubeapiserver.NewStorageFactoryConfig()
	config.APIResourceConfig = resources
	options := genericoptions.NewEtcdOptions(storagebackend.NewDefaultConfig("", nil))
	options.DefaultStorageMediaType = runtime.ContentTypeProtobuf
	f, err := config.Complete(options).New()
	return f, restOptions{store: s, factory: f}, err
}

// crdStorage keeps CustomResourceDefinitions.
func crdStorage(s *store.Store) restOptions {
	return simpleStorage(s, apiserver.Codecs.LegacyCodec(apiextensionsv1.SchemeGroupVersion))
}

// customStorage keeps custom resources.
func customStorage(s *store.Store) restOptions {
	return simpleStorage(s, unstructured.UnstructuredJSONScheme)
}

// apiServiceStorage keeps APIServices.
func apiServiceStorage(s *store.Store) restOptions {
	return simpleStorage(s, aggregatorscheme.Codecs.LegacyCodec(apiregistrationv1.SchemeGroupVersion))
}

func simpleStorage(s *store.Store, codec runtime.Codec) restOptions {
	config := storagebackend.NewDefaultConfig("", codec)
	return restOptions{store: s, factory: &genericoptions.SimpleStorageFactory{StorageConfig: *config}}
}
