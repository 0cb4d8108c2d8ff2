package apiserver

import (
	"fmt"
	"net/http"

	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/informers"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	controlplane "k8s.io/kubernetes/pkg/controlplane/apiserver"

	"github.com/setpoint-dev/setpoint/plane/store"
)

// aggregatorServer comes first in the chain: it serves APIServices, and discovery
// and OpenAPI of everything, and passes requests on to the server of their group.
// API servers outside of the process are reached without a client certificate, so
// they cannot know on whose behalf.
func aggregatorServer(generic genericapiserver.Config, s *store.Store, shared informers.SharedInformerFactory, services webhook.ServiceResolver,
	transport *http.Transport, next *genericapiserver.GenericAPIServer, crds *apiextensionsapiserver.CustomResourceDefinitions) (*aggregatorapiserver.APIAggregator, error) {
	generic.PostStartHooks = map[string]genericapiserver.PostStartHookConfigEntry{}
	generic.RESTOptionsGetter = apiServiceStorage(s)
	generic.SkipOpenAPIInstallation = true // serveOpenAPI does it
	generic.MergedResourceConfig = aggregatorapiserver.DefaultAPIResourceConfigSource()
	config := aggregatorapiserver.Config{
		GenericConfig: &genericapiserver.RecommendedConfig{Config: generic, SharedInformerFactory: shared},
		ExtraConfig:   aggregatorapiserver.ExtraConfig{ServiceResolver: services, ProxyTransport: transport},
	}
	server, err := controlplane.CreateAggregatorServer(config.Complete(), next,
		crds.Informers.Apiextensions().V1().CustomResourceDefinitions(), true, priorities())
	if err != nil {
		return nil, fmt.Errorf("making the aggregator: %w", err)
	}
	return server, nil
}
