package apiserver

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"net/http"

	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kubernetes/pkg/capabilities"
	"k8s.io/kubernetes/pkg/controlplane"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	corerest "k8s.io/kubernetes/pkg/registry/core/rest"
	"k8s.io/kubernetes/pkg/routes"
	"k8s.io/kubernetes/pkg/serviceaccount"

	"github.com/setpoint-dev/setpoint/plane/internal/inproc"
	"github.com/setpoint-dev/setpoint/plane/store"
)

// Config is what a server is made from. All of it is needed.
type Config struct {
	// Store keeps all objects. It is stopped by its owner, after the server.
	Store *store.Store
	// Address is the host:port that discovery names.
	Address string
	// ClientCA is the PEM bundle that client certificates are checked against.
	ClientCA []byte
	// TokenKey signs ServiceAccount tokens.
	TokenKey *ecdsa.PrivateKey
	// APIOnly says that no controllers run beside the server.
	APIOnly bool
}

// Server is an assembled API server.
type Server struct {
	config    Config
	crds      *apiextensionsapiserver.CustomResourceDefinitions
	builtin   *controlplaneapiserver.Server
	aggregate *aggregatorapiserver.APIAggregator
	generic   *genericapiserver.Config

	client    kubernetes.Interface
	shared    informers.SharedInformerFactory
	resources *serverstorage.ResourceConfig
	services  serviceResolver
	admission *lateAdmission
	addresses *serviceAddresses
	transport *http.Transport

	// discoveryComplete ends the time in which a 404 may mean "not yet".
	discoveryComplete chan struct{}
	// serving is closed when inproc is set.
	serving chan struct{}
	inproc  *inproc.Server
	// running ends first: watches end with it.
	running context.Context
	endRun  context.CancelFunc
	// hooks is the context of upstream's post-start hooks and of the informers.
	hooks        context.Context
	endHooks     context.CancelFunc
	hooksRunning bool
	// bootstrapped gets the result of bootstrap.
	bootstrapped chan error
}

// New assembles a server. Goroutines of upstream may start; Stop ends them.
func New(config Config) (*Server, error) {
	// Global to the process, as kubeadm sets it; only the first call counts.
	capabilities.Setup(true, 0)
	s := &Server{
		config:            config,
		transport:         newTransport(),
		serving:           make(chan struct{}),
		discoveryComplete: make(chan struct{}),
		bootstrapped:      make(chan error, 1),
	}
	s.running, s.endRun = context.WithCancel(context.Background())
	s.hooks, s.endHooks = context.WithCancel(context.Background())
	if err := s.assemble(); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// RESTConfig reaches the server from inside of the process as that user. Requests
// wait until the server serves: what upstream starts while the server is assembled
// asks at once, and would have to try again.
func (s *Server) RESTConfig(as user.Info) *rest.Config {
	return inproc.RESTConfig(func() *inproc.Server {
		select {
		case <-s.serving:
			return s.inproc
		case <-s.hooks.Done():
			return nil
		}
	}, as)
}

// Handler serves requests that say themselves whose they are.
func (s *Server) Handler() http.Handler { return s.aggregate.GenericAPIServer.Handler }

// InProcess serves requests of this process.
func (s *Server) InProcess() *inproc.Server { return s.inproc }

// assemble makes the chain: aggregator, built-in groups, custom resources.
func (s *Server) assemble() error {
	loopback := s.RESTConfig(&user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup}})
	// The servers of custom resources and APIServices speak no protobuf.
	typed := rest.CopyConfig(loopback)
	typed.ContentType = "application/vnd.kubernetes.protobuf"
	typed.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	var err error
	if s.client, err = kubernetes.NewForConfig(typed); err != nil {
		return fmt.Errorf("making the loopback client: %w", err)
	}
	s.shared = newInformers(s.client)
	if s.addresses, err = newServiceAddresses(); err != nil {
		return err
	}
	slices, err := proxy.NewEndpointSliceIndexerGetter(s.shared.Discovery().V1().EndpointSlices())
	if err != nil {
		return fmt.Errorf("indexing EndpointSlices: %w", err)
	}
	s.services = serviceResolver{services: s.shared.Core().V1().Services().Lister(), endpointSlices: slices}

	schemas := make(chan *common.OpenAPIV3Config, 1)
	go func() { schemas <- openAPIV3Config() }()
	s.resources = controlplane.DefaultAPIResourceConfigSource()
	generic := genericConfig(loopback, s.config.Address, s.resources, s.discoveryComplete, s.running)
	s.generic = generic
	t, err := newTokens(s.config.TokenKey)
	if err != nil {
		return err
	}
	schemes, err := s.secure(t)
	if err != nil {
		return err
	}
	resolver := webhook.NewDefaultAuthenticationInfoResolverWrapper(s.transport, nil, loopback, generic.TracerProvider)
	if s.crds, err = crdServer(*generic, s.config.Store, s.shared, s.services, resolver); err != nil {
		return err
	}
	generic.OpenAPIV3Config = <-schemas
	generic.OpenAPIV3Config.SecuritySchemes = schemes
	if err := s.installBuiltin(t, slices); err != nil {
		return err
	}
	s.aggregate, err = aggregatorServer(*generic, s.config.Store, s.shared, s.services, s.transport, s.builtin.GenericAPIServer, s.crds)
	return err
}

// secure sets up authentication, authorization and a place for admission. It returns
// how OpenAPI v3 describes the first.
func (s *Server) secure(t tokens) (spec3.SecuritySchemes, error) {
	var err error
	if s.generic.Authorization.Authorizer, s.generic.RuleResolver, err = authorization(s.shared); err != nil {
		return nil, err
	}
	s.admission = &lateAdmission{}
	s.generic.AdmissionControl = s.admission
	requestEarly(s.shared)
	return authentication(s.hooks, s.generic, s.config.ClientCA, t, s.client)
}

// installBuiltin makes the server of the built-in groups.
func (s *Server) installBuiltin(t tokens, slices proxy.EndpointSliceGetter) error {
	factory, options, err := builtinStorage(s.config.Store, s.resources)
	if err != nil {
		return fmt.Errorf("setting up the storage of the built-in groups: %w", err)
	}
	config := *s.generic
	config.RESTOptionsGetter = options
	config.SkipOpenAPIInstallation = true // serveOpenAPI does it
	server, err := config.Complete(s.shared).New("kube-apiserver", s.crds.GenericAPIServer)
	if err != nil {
		return fmt.Errorf("making the server of the built-in groups: %w", err)
	}
	metadata, err := serviceaccount.NewOpenIDMetadataProvider(issuer, "", s.config.Address, t.keys)
	if err != nil {
		return fmt.Errorf("publishing the issuer of ServiceAccount tokens: %w", err)
	}
	routes.NewOpenIDMetadataServer(metadata).Install(server.Handler.GoRestfulContainer)

	core := &coreGroup{
		GenericConfig: corerest.GenericConfig{
			StorageFactory:       factory,
			EventTTL:             eventTTL,
			ServiceAccountIssuer: t.generator,
			APIAudiences:         config.Authentication.APIAudiences,
			LoopbackClientConfig: config.LoopbackClientConfig,
			Informers:            s.shared,
		},
		client:         s.client,
		authorizer:     config.Authorization.Authorizer,
		addresses:      s.addresses,
		endpointSlices: slices,
		transport:      s.transport,
	}
	s.builtin = &controlplaneapiserver.Server{
		GenericAPIServer:        server,
		APIResourceConfigSource: s.resources,
		RESTOptionsGetter:       options,
		VersionedInformers:      s.shared,
	}
	if err := s.builtin.InstallAPIs(groups(core, &config, s.client, s.shared)...); err != nil {
		return fmt.Errorf("installing the built-in groups: %w", err)
	}
	return nil
}
