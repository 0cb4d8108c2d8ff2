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
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	serviceaccountcontroller "k8s.io/kubernetes/pkg/controller/serviceaccount"
	kubeauthenticator "k8s.io/kubernetes/pkg/kubeapiserver/authenticator"
	"k8s.io/kubernetes/pkg/serviceaccount"

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
// It also says so in OpenAPI.
func authentication(ctx context.Context, generic *genericapiserver.Config, clientCA []byte, t tokens, client kubernetes.Interface, shared informers.SharedInformerFactory) error {
	ca, err := dynamiccertificates.NewStaticCAContent("plane-client-ca", clientCA)
	if err != nil {
		return fmt.Errorf("trusting the plane's own authority: %w", err)
	}
	core, admission := shared.Core().V1(), shared.Admissionregistration().V1()
	audiences := authenticator.Audiences{issuer}
	config := kubeauthenticator.Config{
		Anonymous:                      anonymous(),
		APIAudiences:                   audiences,
		ClientCAContentProvider:        ca,
		ServiceAccountLookup:           true,
		ServiceAccountIssuers:          []string{issuer},
		ServiceAccountPublicKeysGetter: t.keys,
		ServiceAccountTokenGetter: serviceaccountcontroller.NewGetterFromClient(client,
			core.Secrets().Lister(), core.ServiceAccounts().Lister(), core.Pods().Lister(), core.Nodes().Lister(),
			admission.ValidatingWebhookConfigurations().Lister(), admission.MutatingWebhookConfigurations().Lister()),
		SecretsWriter:        client.CoreV1(),
		TokenSuccessCacheTTL: 10 * time.Second,
	}
	remote, _, schemesV2, schemesV3, err := config.New(ctx)
	if err != nil {
		return fmt.Errorf("setting up authentication: %w", err)
	}
	generic.Authentication.APIAudiences = audiences
	generic.Authentication.Authenticator = union.NewFailOnError(authenticator.RequestFunc(authenticateInProcess), remote)
	generic.OpenAPIConfig.SecurityDefinitions = schemesV2
	generic.OpenAPIV3Config.SecuritySchemes = schemesV3
	return nil
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
