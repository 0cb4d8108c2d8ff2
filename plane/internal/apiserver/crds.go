package apiserver

import (
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	"k8s.io/apiserver/pkg/endpoints/filters"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/notfoundhandler"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/informers"

	"github.com/setpoint-dev/setpoint/plane/store"
)

// settled is how long ago a CustomResourceDefinition must have been established
// for its first custom resource to be created without delay.
const settled = 2 * time.Second

// crdServer serves CustomResourceDefinitions and custom resources, and says 404 to
// everything else.
func crdServer(generic genericapiserver.Config, s *store.Store, shared informers.SharedInformerFactory,
	services webhook.ServiceResolver, resolver webhook.AuthenticationInfoResolverWrapper) (*apiextensionsapiserver.CustomResourceDefinitions, error) {
	generic.PostStartHooks = map[string]genericapiserver.PostStartHookConfigEntry{}
	generic.RESTOptionsGetter = crdStorage(s)
	generic.MergedResourceConfig = apiextensionsapiserver.DefaultAPIResourceConfigSource()
	// Its own types are few; it must not make the definitions of all.
	generic.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(openapi.GetOpenAPIDefinitions, definitionNamer())
	generic.SkipOpenAPIInstallation = true // serveOpenAPI does it
	config := apiextensionsapiserver.Config{
		GenericConfig: &genericapiserver.RecommendedConfig{Config: generic, SharedInformerFactory: shared},
		ExtraConfig: apiextensionsapiserver.ExtraConfig{
			CRDRESTOptionsGetter: customStorage(s),
			MasterCount:          1,
			ServiceResolver:      services,
			AuthResolverWrapper:  resolver,
		},
	}
	notFound := notfoundhandler.New(generic.Serializer, filters.NoMuxAndDiscoveryIncompleteKey)
	server, err := config.Complete().New(genericapiserver.NewEmptyDelegateWithCustomHandler(notFound))
	if err != nil {
		return nil, fmt.Errorf("making the server of CustomResourceDefinitions: %w", err)
	}
	crds := server.Informers.Apiextensions().V1().CustomResourceDefinitions().Informer()
	if err := crds.SetTransform(backdateEstablished); err != nil {
		return nil, fmt.Errorf("transforming CustomResourceDefinitions: %w", err)
	}
	return server, nil
}

// backdateEstablished makes a CustomResourceDefinition look settled. The server
// holds the first custom resources of a new one back for two seconds, lest another
// replica of the API server does not know it yet; here there is only one.
//
// It sees the server's own copy. When a controller writes another condition of that
// object afterwards, the earlier time becomes visible in the API.
func backdateEstablished(obj any) (any, error) {
	crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return obj, nil
	}
	for i := range crd.Status.Conditions {
		condition := &crd.Status.Conditions[i]
		if condition.Type == apiextensionsv1.Established {
			condition.LastTransitionTime.Time = condition.LastTransitionTime.Add(-settled)
		}
	}
	return crd, nil
}
