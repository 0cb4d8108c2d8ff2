package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/pflag"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/setpoint-dev/setpoint/operators/catalog"
	"github.com/setpoint-dev/setpoint/telemetry/debug"
)

// maxAnswer bounds what is read of an endpoint's answer.
const maxAnswer = 64 << 20

// tokenLife is how long a token lives that is asked for; the least that API servers grant.
const tokenLife = 10 * 60

// endpointOptions are the flags that say which managers to ask and as whom.
type endpointOptions struct {
	address    string
	pods       []string
	port       int
	kubeconfig string
	context    string
	token      string
	account    string
	authority  string
	insecure   bool
}

func (o *endpointOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.address, "address", "", "the `URL` of a manager, as https://host:8443")
	f.StringArrayVar(&o.pods, "pod", nil, "a manager's Pod, as `namespace/name`, whose port is forwarded; may be repeated")
	f.IntVar(&o.port, "port", 8443, "the port of the Pods, over TLS; a negative one is plain HTTP, as for a manager on its Pod's loopback address")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "the kubeconfig `file` of the cluster of --pod and --service-account")
	f.StringVar(&o.context, "context", "", "the `context` of the kubeconfig")
	f.StringVar(&o.token, "token", "", "the bearer `token` to show; by default the kubeconfig's")
	f.StringVar(&o.account, "service-account", "", "show a token of this ServiceAccount, `namespace/name`, which is asked for")
	f.StringVar(&o.authority, "certificate-authority", "", "the `file` with the CA of --address")
	f.BoolVar(&o.insecure, "insecure-skip-tls-verify", false, "do not check who answers at --address")
}

// endpoint is a manager's debug endpoint.
type endpoint struct {
	name  string
	url   string
	token string
	http  *http.Client
	err   error // why it cannot be reached
}

// endpoints are all that are asked, and what keeps them open.
type endpoints struct {
	all     []endpoint
	cluster *rest.Config // theirs, as far as is known; nil: unknown
	closers []func()
}

func (e *endpoints) close() {
	for _, c := range e.closers {
		c()
	}
}

func (e *endpoints) names() []string {
	var names []string
	for _, one := range e.all {
		names = append(names, one.name)
	}
	return names
}

// find finds the managers to ask, and the namespace that is meant by default.
func (o *endpointOptions) find(ctx context.Context) (*endpoints, string, error) {
	if o.address == "" && len(o.pods) == 0 {
		return o.findPlane(ctx)
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: o.context})
	namespace, _, err := loader.Namespace()
	if err != nil && (len(o.pods) > 0 || o.account != "") {
		return nil, "", err
	}
	if namespace == "" {
		namespace = "default"
	}
	config, err := loader.ClientConfig()
	if err != nil && (len(o.pods) > 0 || o.account != "") {
		return nil, "", fmt.Errorf("no cluster found for --pod or --service-account: %w", err)
	}
	token, err := o.bearer(ctx, config)
	if err != nil {
		return nil, "", err
	}
	found := &endpoints{cluster: config}
	if o.address != "" {
		one, err := o.atAddress(token)
		if err != nil {
			return nil, "", err
		}
		found.all = append(found.all, one)
	}
	for _, pod := range o.pods {
		one, stop, err := forward(ctx, config, pod, o.port)
		switch {
		case errors.As(err, new(misuse)):
			found.close()
			return nil, "", err
		case err != nil: // one of several that has crashed: that is when the others are asked
			one = endpoint{name: "Pod " + pod, err: err}
		default:
			found.closers = append(found.closers, stop)
		}
		one.token = token
		found.all = append(found.all, one)
	}
	return found, namespace, nil
}

// bearer returns the token to show, if there is one.
func (o *endpointOptions) bearer(ctx context.Context, config *rest.Config) (string, error) {
	switch {
	case o.token != "":
		return o.token, nil
	case o.account != "":
		return requestToken(ctx, config, o.account)
	case config == nil:
		return "", nil
	case config.BearerToken != "":
		return config.BearerToken, nil
	case config.BearerTokenFile != "":
		data, err := os.ReadFile(config.BearerTokenFile)
		return strings.TrimSpace(string(data)), err
	}
	return "", nil
}

// requestToken asks for a token of a ServiceAccount.
func requestToken(ctx context.Context, config *rest.Config, account string) (string, error) {
	namespace, name, ok := strings.Cut(account, "/")
	if !ok {
		return "", misuse{fmt.Errorf("the ServiceAccount %q is not namespace/name", account)}
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	life := int64(tokenLife)
	granted, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &life}}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("asking for a token of the ServiceAccount %s: %w", account, err)
	}
	return granted.Status.Token, nil
}

// atAddress is the endpoint of --address.
func (o *endpointOptions) atAddress(token string) (endpoint, error) {
	u, err := url.Parse(o.address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return endpoint{}, misuse{fmt.Errorf("--address: %q is no URL such as https://127.0.0.1:8443", o.address)}
	}
	if u.Scheme == "http" {
		token = "" // it would be read on its way
	}
	config := &tls.Config{InsecureSkipVerify: o.insecure}
	if o.authority != "" {
		data, err := os.ReadFile(o.authority)
		if err != nil {
			return endpoint{}, err
		}
		if config, err = trusting(data); err != nil {
			return endpoint{}, fmt.Errorf("%s: %w", o.authority, err)
		}
	}
	return endpoint{name: u.Host, url: strings.TrimSuffix(o.address, "/"), token: token, http: clientWith(config)}, nil
}

// findPlane finds the operators of the plane that was started last.
func (o *endpointOptions) findPlane(ctx context.Context) (*endpoints, string, error) {
	last, err := lastPlane()
	if err != nil {
		return nil, "", fmt.Errorf("%w; or name a manager with --address or --pod", err)
	}
	if last.Debug == nil {
		return nil, "", errors.New("the plane that was started last runs no operators; name a manager with --address or --pod")
	}
	config, err := clientcmd.BuildConfigFromFlags("", last.Kubeconfig)
	if err != nil {
		return nil, "", err
	}
	token := o.token
	if token == "" {
		if token, err = requestToken(ctx, config, catalog.Namespace+"/"+debugAccount); err != nil {
			return nil, "", err
		}
	}
	trusted, err := trusting(last.Debug.Certificate)
	if err != nil {
		return nil, "", err
	}
	found, client := &endpoints{cluster: config}, clientWith(trusted)
	for _, name := range last.Debug.Operators {
		found.all = append(found.all, endpoint{name: "operator " + name, url: last.Debug.URL + "/" + name, token: token, http: client})
	}
	return found, "default", nil
}

// trusting returns what trusts these certificates only.
func trusting(certificates []byte) (*tls.Config, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(certificates) {
		return nil, errors.New("no certificate in PEM")
	}
	return &tls.Config{RootCAs: pool}, nil
}

func clientWith(config *tls.Config) *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config, Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}}
}

// story asks for the story of an object.
func (e endpoint) story(ctx context.Context, kind, namespace, name, cluster string) (debug.Story, error) {
	query := url.Values{"kind": {kind}, "namespace": {namespace}, "name": {name}}
	if cluster != "" {
		query.Set("cluster", cluster)
	}
	var s debug.Story
	data, err := e.get(ctx, debug.PathObject+"?"+query.Encode())
	if err == nil {
		if err = json.Unmarshal(data, &s); err != nil {
			err = fmt.Errorf("the answer is not understood: %w", err)
		}
	}
	return s, err
}

// get reads a path of the endpoint.
func (e endpoint) get(ctx context.Context, path string) ([]byte, error) {
	if e.err != nil {
		return nil, e.err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.url+path, nil)
	if err != nil {
		return nil, err
	}
	if e.token != "" {
		req.Header.Set("Authorization", "Bearer "+e.token)
	}
	resp, err := e.http.Do(req)
	if err != nil {
		if unknown := (x509.UnknownAuthorityError{}); errors.As(err, &unknown) {
			err = fmt.Errorf("%w; give its CA with --certificate-authority, or do not check with --insecure-skip-tls-verify", err)
		}
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode == http.StatusUnauthorized:
		return nil, fmt.Errorf("%s: give a token with --token or --service-account", strings.TrimSpace(string(data)))
	case resp.StatusCode == http.StatusForbidden:
		return nil, fmt.Errorf("%s: a ClusterRole must allow its user to get the non-resource URL", strings.TrimSpace(string(data)))
	case resp.StatusCode == http.StatusNotFound:
		return nil, errors.New("it serves no debug endpoint: its program must set Config.Debug")
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(string(data)))
	}
	return data, nil
}
