package workload

import (
	"context"
	"sync"
	"time"

	apiextensionsscheme "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/scheme"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/scale"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/controller/disruption"
	"k8s.io/kubernetes/pkg/controller/resourcequota"
	"k8s.io/kubernetes/pkg/controller/validatingadmissionpolicystatus"
	"k8s.io/kubernetes/pkg/generated/openapi"
	quotainstall "k8s.io/kubernetes/pkg/quota/v1/install"
)

const (
	// quotaResync is how often all quotas are counted again from scratch. A first
	// count may miss objects that its informers did not have yet; upstream's five
	// minutes are too long for those who wait for it.
	quotaResync = 10 * time.Second
	// followPeriod is the pause of upstream's loops over discovery, which here wait
	// for a change instead. It also bounds how long they wait for new informers.
	followPeriod = 250 * time.Millisecond
)

func buildDisruption(ctx context.Context, e *environment) ([]loop, error) {
	const name = "disruption-controller"
	client, err := e.client(name)
	if err != nil {
		return nil, err
	}
	config := configFor(e.config.REST, name)
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	scaleClient, err := scale.NewForConfig(config, e.resources, dynamic.LegacyAPIPathResolverFunc,
		scale.NewDiscoveryScaleKindResolver(client.Discovery()))
	if err != nil {
		return nil, err
	}
	core, apps := e.informers.Core().V1(), e.informers.Apps().V1()
	c := disruption.NewDisruptionController(ctx, core.Pods(), e.informers.Policy().V1().PodDisruptionBudgets(),
		core.ReplicationControllers(), apps.ReplicaSets(), apps.Deployments(), apps.StatefulSets(),
		client, e.resources, scaleClient, client.Discovery())
	return workersLoop(c.Run), nil
}

func buildResourceQuota(ctx context.Context, e *environment) ([]loop, error) {
	client, err := e.client("resourcequota-controller")
	if err != nil {
		return nil, err
	}
	quotas, err := quotainstall.NewQuotaConfigurationForControllers(generic.ListerFuncForResourceFunc(e.informers.ForResource), e.informers)
	if err != nil {
		return nil, err
	}
	c, err := resourcequota.NewController(ctx, &resourcequota.ControllerOptions{
		QuotaClient:               client.CoreV1(),
		ResourceQuotaInformer:     e.informers.Core().V1().ResourceQuotas(),
		ResyncPeriod:              func() time.Duration { return quotaResync },
		InformerFactory:           e.monitors,
		ReplenishmentResyncPeriod: func() time.Duration { return 0 },
		DiscoveryFunc:             e.resources.follow(ctx).namespaced,
		IgnoredResourcesFunc:      quotas.IgnoredResources,
		InformersStarted:          e.informersStarted,
		Registry:                  generic.NewRegistry(quotas.Evaluators()),
		UpdateFilter:              quotainstall.DefaultUpdateFilter(),
	})
	if err != nil {
		return nil, err
	}
	follow := e.resources.follow(ctx).namespaced
	return append(workersLoop(c.Run), func(ctx context.Context) { c.Sync(ctx, follow, followPeriod) }), nil
}

func buildValidatingAdmissionPolicyStatus(_ context.Context, e *environment) ([]loop, error) {
	client, err := e.client("validatingadmissionpolicy-status-controller")
	if err != nil {
		return nil, err
	}
	schemas := lateSchemas(sync.OnceValue(func() resolver.SchemaResolver {
		return resolver.NewDefinitionsSchemaResolver(openapi.GetOpenAPIDefinitions, scheme.Scheme, apiextensionsscheme.Scheme).
			Combine(&resolver.ClientDiscoveryResolver{Discovery: client.Discovery()})
	}))
	policies := e.informers.Admissionregistration().V1().ValidatingAdmissionPolicies()
	c, err := validatingadmissionpolicystatus.NewController(policies, client.AdmissionregistrationV1().ValidatingAdmissionPolicies(),
		&validating.TypeChecker{SchemaResolver: schemas, RestMapper: e.resources})
	if err != nil {
		return nil, err
	}
	return workersLoop(c.Run), nil
}

// lateSchemas builds the schemas of all kinds, which take time and megabytes, when
// the first policy is there to be checked against them.
type lateSchemas func() resolver.SchemaResolver

func (l lateSchemas) ResolveSchema(kind schema.GroupVersionKind) (*spec.Schema, error) {
	return l().ResolveSchema(kind)
}
