package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/client-go/kubernetes"
	api "k8s.io/kubernetes/pkg/apis/core"
	kubeletclient "k8s.io/kubernetes/pkg/kubelet/client"
	"k8s.io/kubernetes/pkg/registry/core/componentstatus"
	endpointsstore "k8s.io/kubernetes/pkg/registry/core/endpoint/storage"
	limitrangestore "k8s.io/kubernetes/pkg/registry/core/limitrange/storage"
	nodestore "k8s.io/kubernetes/pkg/registry/core/node/storage"
	pvstore "k8s.io/kubernetes/pkg/registry/core/persistentvolume/storage"
	pvcstore "k8s.io/kubernetes/pkg/registry/core/persistentvolumeclaim/storage"
	podstore "k8s.io/kubernetes/pkg/registry/core/pod/storage"
	podtemplatestore "k8s.io/kubernetes/pkg/registry/core/podtemplate/storage"
	controllerstore "k8s.io/kubernetes/pkg/registry/core/replicationcontroller/storage"
	corerest "k8s.io/kubernetes/pkg/registry/core/rest"
	servicestore "k8s.io/kubernetes/pkg/registry/core/service/storage"
	serviceaccountstore "k8s.io/kubernetes/pkg/registry/core/serviceaccount/storage"
)

// coreGroup serves the group "". It is composed here because upstream's provider
// opens etcd for the ports and addresses of Services, whatever storage it is given.
type coreGroup struct {
	corerest.GenericConfig
	client         kubernetes.Interface
	authorizer     authorizer.Authorizer
	addresses      *serviceAddresses
	endpointSlices proxy.EndpointSliceGetter
	transport      http.RoundTripper
}

// NewRESTStorage implements controlplane's RESTStorageProvider.
func (g *coreGroup) NewRESTStorage(resources serverstorage.APIResourceConfigSource, options generic.RESTOptionsGetter) (genericapiserver.APIGroupInfo, error) {
	group, err := g.GenericConfig.NewRESTStorage(resources, options)
	if err != nil {
		return genericapiserver.APIGroupInfo{}, err
	}
	all := group.VersionedResourcesStorageMap["v1"]
	err = errors.Join(
		g.addWorkloads(all, options),
		g.addVolumes(all, options),
	)
	if err != nil {
		return genericapiserver.APIGroupInfo{}, err
	}
	for name := range all {
		if !resources.ResourceEnabled(corev1.SchemeGroupVersion.WithResource(name)) {
			delete(all, name)
		}
	}
	return group, nil
}

// addWorkloads adds what concerns Pods and the ways to them.
func (g *coreGroup) addWorkloads(all map[string]rest.Storage, options generic.RESTOptionsGetter) error {
	nodes, err := nodestore.NewStorage(options, kubeletclient.KubeletClientConfig{Port: 10250, ReadOnlyPort: 10255}, g.transport)
	if err != nil {
		return err
	}
	all["nodes"] = nodes.Node
	all["nodes/proxy"] = nodes.Proxy
	all["nodes/status"] = nodes.Status

	pods, err := podstore.NewStorage(options, noKubelets{}, g.transport, g.client.PolicyV1(), g.authorizer)
	if err != nil {
		return err
	}
	all["pods"] = pods.Pod
	all["pods/attach"] = pods.Attach
	all["pods/binding"] = pods.Binding
	all["pods/ephemeralcontainers"] = pods.EphemeralContainers
	all["pods/eviction"] = pods.Eviction
	all["pods/exec"] = pods.Exec
	all["pods/log"] = pods.Log
	all["pods/portforward"] = pods.PortForward
	all["pods/proxy"] = pods.Proxy
	all["pods/resize"] = pods.Resize
	all["pods/status"] = pods.Status
	all["bindings"] = pods.LegacyBinding

	templates, err := podtemplatestore.NewREST(options)
	if err != nil {
		return err
	}
	all["podtemplates"] = templates

	controllers, err := controllerstore.NewStorage(options)
	if err != nil {
		return err
	}
	all["replicationcontrollers"] = controllers.Controller
	all["replicationcontrollers/scale"] = controllers.Scale
	all["replicationcontrollers/status"] = controllers.Status

	return errors.Join(
		g.addServices(all, options, pods),
		g.addServiceAccounts(all, options, pods, nodes),
	)
}

func (g *coreGroup) addServices(all map[string]rest.Storage, options generic.RESTOptionsGetter, pods podstore.PodStorage) error {
	services, status, serviceProxy, err := servicestore.NewREST(options, api.IPv4Protocol,
		g.addresses.byFamily, g.addresses.ports, g.endpointSlices,
		pods.Pod, g.transport)
	if err != nil {
		return err
	}
	all["services"] = services
	all["services/proxy"] = serviceProxy
	all["services/status"] = status

	endpoints, err := endpointsstore.NewREST(options)
	if err != nil {
		return err
	}
	all["endpoints"] = endpoints
	all["componentstatuses"] = componentstatus.NewStorage(func() map[string]componentstatus.Server { return nil })
	return nil
}

// addServiceAccounts replaces the storage that knows of no Pods.
func (g *coreGroup) addServiceAccounts(all map[string]rest.Storage, options generic.RESTOptionsGetter, pods podstore.PodStorage, nodes *nodestore.NodeStorage) error {
	for _, name := range []string{"serviceaccounts", "serviceaccounts/token"} {
		if old := all[name]; old != nil {
			old.Destroy()
		}
	}
	webhooks := g.client.AdmissionregistrationV1()
	accounts, err := serviceaccountstore.NewREST(options, g.ServiceAccountIssuer, g.APIAudiences, g.authorizer,
		g.ServiceAccountMaxExpiration, pods.Pod.Store, all["secrets"].(rest.Getter), nodes.Node.Store,
		webhooks.ValidatingWebhookConfigurations(), webhooks.MutatingWebhookConfigurations(),
		g.ExtendExpiration, g.MaxExtendedExpiration)
	if err != nil {
		return err
	}
	all["serviceaccounts"] = accounts
	all["serviceaccounts/token"] = accounts.Token
	return nil
}

// addVolumes adds volumes and limits.
func (g *coreGroup) addVolumes(all map[string]rest.Storage, options generic.RESTOptionsGetter) error {
	volumes, volumeStatus, err := pvstore.NewREST(options)
	if err != nil {
		return err
	}
	all["persistentvolumes"] = volumes
	all["persistentvolumes/status"] = volumeStatus

	claims, claimStatus, err := pvcstore.NewREST(options)
	if err != nil {
		return err
	}
	all["persistentvolumeclaims"] = claims
	all["persistentvolumeclaims/status"] = claimStatus

	limits, err := limitrangestore.NewREST(options)
	if err != nil {
		return err
	}
	all["limitranges"] = limits
	return nil
}

// noKubelets answers whoever wants logs, exec, attach or port-forward.
type noKubelets struct{}

// GetConnectionInfo implements upstream's ConnectionInfoGetter.
func (noKubelets) GetConnectionInfo(_ context.Context, node types.NodeName) (*kubeletclient.ConnectionInfo, error) {
	return nil, apierrors.NewBadRequest(fmt.Sprintf("node %s is a fake one: it runs no containers, so there is nothing to read from or to connect to", node))
}
