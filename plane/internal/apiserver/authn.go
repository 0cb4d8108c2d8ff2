package apiserver

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"net/http"
	"time"

	apiserverconfig "k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/union"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
	admissionlisters "k8s.io/client-go/listers/admissionregistration/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kube-openapi/pkg/spec3"
	serviceaccountcontroller "k8s.io/kubernetes/pkg/controller/serviceaccount"
	kubeauthenticator "k8s.io/kubernetes/pkg/kubeapiserver/authenticator"
	"k8s.io/kubernetes/pkg/serviceaccount"

	"github.com/setpoint-dev/setpoint/plane/internal/clientcert"
	"github.com/setpoint-dev/setpoint/plane/internal/inproc"
)

// issuer is who signs ServiceAccount tokens, and their default audience.
const issuer = "https://kubernetes.default.svc.cluster.local"

// publicPaths need no credentials. What system:anonymous may see there is still for
// authorization to say; the bootstrap roles let everybody see these.
var publicPaths = []string{"/livez", "/readyz", "/healthz", "/version"}

// tokens issues and checks the tokens of ServiceAccounts.
type tokens struct {
	generator serviceaccount.TokenGenerator
	keys      serviceaccount.PublicKeysGetter
}

func newTokens(key *ecdsa.PrivateKey) (tokens, error) {
	generator, err := serviceaccount.JWTTokenGenerator(issuer, key)
	if err != nil {
		return tokens{}, fmt.Errorf("making the issuer of ServiceAccount tokens: %w", err)
	}
	keys, err := serviceaccount.StaticPublicKeysGetter([]any{key.Public()})
	if err != nil {
		return tokens{}, fmt.Errorf("publishing the key of ServiceAccount tokens: %w", err)
	}
	return tokens{generator: generator, keys: keys}, nil
}

// authentication lets in, in this order: requests of this process, client
// certificates of the authority, ServiceAccount tokens, and anybody to publicPaths.
// It says so in OpenAPI v2, and returns what to say in v3.
func authentication(ctx context.Context, generic *genericapiserver.Config, clientCA []byte, t tokens, client kubernetes.Interface) (spec3.SecuritySchemes, error) {
	ca, err := dynamiccertificates.NewStaticCAContent("plane-client-ca", clientCA)
	if err != nil {
		return nil, fmt.Errorf("trusting the plane's own authority: %w", err)
	}
	audiences := authenticator.Audiences{issuer}
	config := kubeauthenticator.Config{
		Anonymous:                      anonymous(),
		APIAudiences:                   audiences,
		ClientCAContentProvider:        ca,
		ServiceAccountLookup:           true,
		ServiceAccountIssuers:          []string{issuer},
		ServiceAccountPublicKeysGetter: t.keys,
		ServiceAccountTokenGetter:      liveTokenGetter(client),
		SecretsWriter:                  client.CoreV1(),
		TokenSuccessCacheTTL:           10 * time.Second,
	}
	remote, _, schemesV2, schemesV3, err := config.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("setting up authentication: %w", err)
	}
	generic.Authentication.APIAudiences = audiences
	generic.Authentication.Authenticator = union.NewFailOnError(authenticator.RequestFunc(authenticateInProcess), clientcert.New(ca.VerifyOptions), remote)
	generic.OpenAPIConfig.SecurityDefinitions = schemesV2
	return schemesV3, nil
}

// liveTokenGetter looks for what tokens are bound to in the store. Upstream looks in
// the caches of informers first; here these would cost more than they save, and a
// token could be refused because its Secret has not arrived there.
func liveTokenGetter(client kubernetes.Interface) serviceaccount.ServiceAccountTokenGetter {
	nothing := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	return serviceaccountcontroller.NewGetterFromClient(client,
		corelisters.NewSecretLister(nothing), corelisters.NewServiceAccountLister(nothing),
		corelisters.NewPodLister(nothing), corelisters.NewNodeLister(nothing),
		admissionlisters.NewValidatingWebhookConfigurationLister(nothing), admissionlisters.NewMutatingWebhookConfigurationLister(nothing))
}

func anonymous() apiserverconfig.AnonymousAuthConfig {
	config := apiserverconfig.AnonymousAuthConfig{Enabled: true}
	for _, path := range publicPaths {
		config.Conditions = append(config.Conditions, apiserverconfig.AnonymousAuthCondition{Path: path})
	}
	return config
}

// authenticateInProcess trusts the user that package inproc put into the context.
func authenticateInProcess(req *http.Request) (*authenticator.Response, bool, error) {
	as, ok := inproc.UserFrom(req.Context())
	if !ok {
		return nil, false, nil
	}
	return &authenticator.Response{User: as, Audiences: authenticator.Audiences{issuer}}, true, nil
}
