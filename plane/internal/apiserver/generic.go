package apiserver

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"

	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/util/version"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	utilcompatibility "k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	utilopenapi "k8s.io/apiserver/pkg/util/openapi"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/compatibility"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"
)

// genericConfig is what the three servers have in common.
func genericConfig(loopback *rest.Config, address string, resources *serverstorage.ResourceConfig, discoveryComplete <-chan struct{}, running context.Context) *genericapiserver.Config {
	c := genericapiserver.NewConfig(legacyscheme.Codecs)
	c.LoopbackClientConfig = loopback
	c.ExternalAddress = address
	c.MergedResourceConfig = resources
	c.EffectiveVersion = kubernetesVersion{utilcompatibility.DefaultComponentGlobalsRegistry.EffectiveVersionFor(compatibility.DefaultKubeComponent)}
	c.FeatureGate = utilfeature.DefaultFeatureGate
	c.LongRunningFunc = longRunning()
	c.BuildHandlerChainFunc = handlerChain(discoveryComplete, running)
	c.AggregatedDiscoveryGroupManager = aggregated.NewResourceManager("apis")
	// It feeds priority and fairness, which is off, and polls the store for it.
	c.StorageObjectCountTracker = nil
	// The "log" check starts a goroutine that never ends.
	for _, checks := range []*[]healthz.HealthChecker{&c.HealthzChecks, &c.LivezChecks, &c.ReadyzChecks} {
		*checks = []healthz.HealthChecker{healthz.PingHealthz}
	}

	c.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(definitions, definitionNamer())
	c.OpenAPIConfig.Info.Title = "Kubernetes"
	return c
}

// openAPIV3Config describes the types of all built-in groups, which takes a while.
func openAPIV3Config() *common.OpenAPIV3Config {
	c := genericapiserver.DefaultOpenAPIV3Config(definitions, definitionNamer())
	c.Info.Title = "Kubernetes"
	return c
}

// definitions are the OpenAPI schemas of the built-in types.
func definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	return utilopenapi.GetOpenAPIDefinitionsWithoutDisabledFeatures(generatedopenapi.GetOpenAPIDefinitions)(ref)
}

func definitionNamer() *openapi.DefinitionNamer {
	return openapi.NewDefinitionNamer(legacyscheme.Scheme, apiextensionsapiserver.Scheme, aggregatorscheme.Scheme)
}

// kubernetesVersion is the effective version with the truth in Info: upstream's
// version is set by linker flags, which a program that imports it does not have.
type kubernetesVersion struct{ compatibility.EffectiveVersion }

// Info implements compatibility.EffectiveVersion.
func (v kubernetesVersion) Info() *apiversion.Info {
	info := v.EffectiveVersion.Info()
	info.GitVersion = fmt.Sprintf("v%s.%s.0", info.Major, info.Minor) // test binaries do not know more
	info.GitCommit, info.GitTreeState, info.BuildDate = "", "", ""
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return info
	}
	for _, module := range build.Deps {
		if module.Path != "k8s.io/kubernetes" {
			continue
		}
		if _, err := version.ParseSemantic(strings.TrimPrefix(module.Version, "v")); err == nil {
			info.GitVersion = module.Version
		}
	}
	return info
}
