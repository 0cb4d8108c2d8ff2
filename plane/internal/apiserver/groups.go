package apiserver

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	controlplane "k8s.io/kubernetes/pkg/controlplane/apiserver"
	admissionregistrationrest "k8s.io/kubernetes/pkg/registry/admissionregistration/rest"
	apiserverinternalrest "k8s.io/kubernetes/pkg/registry/apiserverinternal/rest"
	appsrest "k8s.io/kubernetes/pkg/registry/apps/rest"
	authenticationrest "k8s.io/kubernetes/pkg/registry/authentication/rest"
	authorizationrest "k8s.io/kubernetes/pkg/registry/authorization/rest"
	autoscalingrest "k8s.io/kubernetes/pkg/registry/autoscaling/rest"
	batchrest "k8s.io/kubernetes/pkg/registry/batch/rest"
	certificatesrest "k8s.io/kubernetes/pkg/registry/certificates/rest"
	coordinationrest "k8s.io/kubernetes/pkg/registry/coordination/rest"
	discoveryrest "k8s.io/kubernetes/pkg/registry/discovery/rest"
	eventsrest "k8s.io/kubernetes/pkg/registry/events/rest"
	flowcontrolrest "k8s.io/kubernetes/pkg/registry/flowcontrol/rest"
	lifecyclerest "k8s.io/kubernetes/pkg/registry/lifecycle/rest"
	networkingrest "k8s.io/kubernetes/pkg/registry/networking/rest"
	noderest "k8s.io/kubernetes/pkg/registry/node/rest"
	policyrest "k8s.io/kubernetes/pkg/registry/policy/rest"
	rbacrest "k8s.io/kubernetes/pkg/registry/rbac/rest"
	resourcerest "k8s.io/kubernetes/pkg/registry/resource/rest"
	schedulingrest "k8s.io/kubernetes/pkg/registry/scheduling/rest"
	storagerest "k8s.io/kubernetes/pkg/registry/storage/rest"
	svmrest "k8s.io/kubernetes/pkg/registry/storagemigration/rest"

	genericapiserver "k8s.io/apiserver/pkg/server"
)

// eventTTL is how long Events are kept.
const eventTTL = time.Hour

// groups are the built-in API groups, in the order in which unqualified resource
// names prefer them.
func groups(core *coreGroup, generic *genericapiserver.Config, client kubernetes.Interface, shared informers.SharedInformerFactory) []controlplane.RESTStorageProvider {
	authn, authz := generic.Authentication, generic.Authorization.Authorizer
	return []controlplane.RESTStorageProvider{
		core,
		apiserverinternalrest.StorageProvider{},
		authenticationrest.RESTStorageProvider{Authenticator: authn.Authenticator, APIAudiences: authn.APIAudiences},
		authorizationrest.RESTStorageProvider{Authorizer: authz, RuleResolver: generic.RuleResolver},
		autoscalingrest.RESTStorageProvider{},
		batchrest.RESTStorageProvider{},
		certificatesrest.RESTStorageProvider{Authorizer: authz},
		coordinationrest.RESTStorageProvider{},
		discoveryrest.StorageProvider{},
		lifecyclerest.RESTStorageProvider{},
		networkingrest.RESTStorageProvider{},
		noderest.RESTStorageProvider{},
		policyrest.RESTStorageProvider{},
		withoutHook{rbacrest.RESTStorageProvider{Authorizer: authz}},
		withoutHook{schedulingrest.RESTStorageProvider{}},
		storagerest.RESTStorageProvider{},
		svmrest.RESTStorageProvider{},
		flowcontrolrest.RESTStorageProvider{InformerFactory: shared},
		appsrest.StorageProvider{},
		admissionregistrationrest.RESTStorageProvider{Authorizer: authz, DiscoveryClient: client.Discovery()},
		eventsrest.RESTStorageProvider{TTL: eventTTL},
		resourcerest.RESTStorageProvider{NamespaceClient: client.CoreV1().Namespaces(), Authorizer: authz},
	}
}

// withoutHook hides the post-start hook of a provider: those of rbac and scheduling
// sleep a second before they begin. Package bootstrap does their work.
type withoutHook struct {
	controlplane.RESTStorageProvider
}

// priorities order the groups, and the versions within them, in discovery. Those
// that upstream exports are completed by those of kube-apiserver's command.
func priorities() map[schema.GroupVersion]controlplane.APIServicePriority {
	all := controlplane.DefaultGenericAPIServicePriorities()
	for _, p := range []struct {
		group, version string
		of, in         int32
	}{
		{"apps", "v1", 17800, 15},
		{"autoscaling", "v1", 17500, 15},
		{"autoscaling", "v2", 17500, 30},
		{"batch", "v1", 17400, 15},
		{"networking.k8s.io", "v1", 17200, 15},
		{"networking.k8s.io", "v1beta1", 17200, 9},
		{"policy", "v1", 17100, 15},
		{"storage.k8s.io", "v1", 16800, 15},
		{"storage.k8s.io", "v1beta1", 16800, 9},
		{"storage.k8s.io", "v1alpha1", 16800, 1},
		{"scheduling.k8s.io", "v1", 16600, 15},
		{"scheduling.k8s.io", "v1beta1", 16600, 9},
		{"scheduling.k8s.io", "v1alpha3", 16600, 3},
		{"node.k8s.io", "v1", 16300, 15},
		{"resource.k8s.io", "v1", 16200, 21},
		{"resource.k8s.io", "v1beta2", 16200, 15},
		{"resource.k8s.io", "v1beta1", 16200, 9},
		{"resource.k8s.io", "v1alpha3", 16200, 1},
		{"lifecycle.k8s.io", "v1alpha1", 15700, 1},
	} {
		all[schema.GroupVersion{Group: p.group, Version: p.version}] = controlplane.APIServicePriority{Group: p.of, Version: p.in}
	}
	return all
}
