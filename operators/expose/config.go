package expose

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"sigs.k8s.io/yaml"
)

// Config says how Services are exposed. It is what the key config.yml of a ConfigMap named exposecontroller holds: the one in
// a Service's namespace for that namespace, and the one in the operator's own namespace for those without one. The zero value
// means an Ingress, without TLS.
type Config struct {
	// Exposer is Ingress, HTTPRoute, NodePort, LoadBalancer or Auto, in any case. Auto, as empty, is HTTPRoute where a
	// Gateway is configured and the cluster serves HTTPRoutes, else Ingress.
	Exposer string `json:"exposer,omitempty"`

	// Domain ends the hosts of Services. Empty: <address>.nip.io of the Node labelled fabric8.io/externalIP=true, or of the
	// only Node.
	Domain string `json:"domain,omitempty"`
	// InternalDomain takes its place for Services that ask for the internal domain.
	InternalDomain string `json:"internal-domain,omitempty"`
	// URLTemplate is a Go template of the host. It is given Service (the Service's name without its release, or the host name
	// that the Service asks for), Namespace, Domain, Name (the Service's) and Labels. Empty:
	// {{.Service}}.{{.Namespace}}.{{.Domain}}
	URLTemplate string `json:"urltemplate,omitempty"`
	// PathMode "path" puts all Services on the host Domain, below /<namespace>/<service>. Empty: each has its own host.
	PathMode string `json:"path-mode,omitempty"`
	// PathType is Prefix, Exact or ImplementationSpecific. Empty: Prefix, or ImplementationSpecific for paths that look like
	// regular expressions.
	PathType string `json:"path-type,omitempty"`

	// TLS makes URLs https. TLSAcme, TLSClusterIssuer and TLSSecretName imply it.
	TLS bool `json:"tls,omitempty"`
	// TLSAcme adds kubernetes.io/tls-acme: "true" to Ingresses, which asks cert-manager for a certificate.
	TLSAcme bool `json:"tls-acme,omitempty"`
	// TLSClusterIssuer adds cert-manager.io/cluster-issuer with this value.
	TLSClusterIssuer string `json:"tls-cluster-issuer,omitempty"`
	// TLSSecretName is the Secret of the certificate. Empty: tls-<Ingress> when a certificate is asked for, else none, which
	// leaves the certificate to the Ingress controller.
	TLSSecretName string `json:"tls-secret-name,omitempty"`
	// TLSUseWildcard makes the TLS host *.<Domain>.
	TLSUseWildcard bool `json:"tls-use-wildcard,omitempty"`
	// HTTP makes http, instead of https, the protocol that ConfigMaps with expose.config.fabric8.io/url-protocol are given.
	HTTP bool `json:"http,omitempty"`

	// IngressClass is the class of Ingresses. Empty: the cluster's default.
	IngressClass string `json:"ingress-class,omitempty"`
	// Gateway names the Gateways of HTTPRoutes as [namespace/]name[/section], separated by commas.
	Gateway string `json:"gateway,omitempty"`
	// NodeIP is the address in the URLs of node ports. Empty: that of the Node with fabric8.io/externalIP, else the first
	// Node's external, else internal address.
	NodeIP string `json:"node-ip,omitempty"`

	// Services lists the names of the Services that may be exposed. Empty: all that ask.
	Services []string `json:"services,omitempty"`

	// APIServer ("host:port"), APIServerProtocol (empty: https), ConsoleURL and AuthorizePath (empty: /oauth/authorize) are
	// given to ConfigMaps that ask for them.
	APIServer         string `json:"apiserver,omitempty"`
	APIServerProtocol string `json:"apiserver-protocol,omitempty"`
	ConsoleURL        string `json:"console-url,omitempty"`
	AuthorizePath     string `json:"authorize-path,omitempty"`

	// Keys of exposecontroller that mean nothing here: they belong to OpenShift's Routes, or are options of the operator.
	RouteHost             any `json:"route-host,omitempty"`
	RouteUsePath          any `json:"route-use-path,omitempty"`
	WatchNamespaces       any `json:"watch-namespaces,omitempty"`
	WatchCurrentNamespace any `json:"watch-current-namespace,omitempty"`
}

// parseConfig reads a configuration.
func parseConfig(text string) (Config, error) {
	var c Config
	if err := yaml.Unmarshal([]byte(text), &c); err != nil {
		return Config{}, fmt.Errorf("%s is no valid configuration: %w", configKey, err)
	}
	return c, nil
}

// judgeConfig says what is wrong with a configuration.
func judgeConfig(text string) problems {
	var wrong problems
	if _, err := parseConfig(text); err != nil {
		wrong.add(reasonInvalidConfig, "%v. All that it is for stays as it is.", err)
	} else if err := yaml.UnmarshalStrict([]byte(text), &Config{}); err != nil {
		wrong.add(reasonInvalidConfig, "%s: %v. The rest of it holds.", configKey, err)
	}
	return wrong
}

// configs remembers what the configurations of namespaces say, since all that is reconciled asks.
type configs struct {
	mu    sync.Mutex
	known map[string]knownConfig // by the namespace of the ConfigMap
}

type knownConfig struct {
	text  string
	c     Config
	valid bool
}

// parse is parseConfig for the ConfigMap of a namespace.
func (s *configs) parse(namespace, text string) (c Config, valid bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, found := s.known[namespace]
	if !found || known.text != text {
		c, err := parseConfig(text)
		known = knownConfig{text, c, err == nil}
		if s.known == nil {
			s.known = map[string]knownConfig{}
		}
		s.known[namespace] = known
	}
	return known.c, known.valid
}

// with returns c with what o sets in its place. A boolean can only be switched on.
func (c Config) with(o Config) Config {
	for _, s := range []struct{ value, over *string }{
		{&c.Exposer, &o.Exposer}, {&c.Domain, &o.Domain}, {&c.InternalDomain, &o.InternalDomain}, {&c.URLTemplate, &o.URLTemplate},
		{&c.PathMode, &o.PathMode}, {&c.PathType, &o.PathType}, {&c.TLSClusterIssuer, &o.TLSClusterIssuer},
		{&c.TLSSecretName, &o.TLSSecretName}, {&c.IngressClass, &o.IngressClass}, {&c.Gateway, &o.Gateway}, {&c.NodeIP, &o.NodeIP},
		{&c.APIServer, &o.APIServer}, {&c.APIServerProtocol, &o.APIServerProtocol}, {&c.ConsoleURL, &o.ConsoleURL},
		{&c.AuthorizePath, &o.AuthorizePath},
	} {
		*s.value = cmp.Or(*s.over, *s.value)
	}
	for _, b := range []struct{ value, over *bool }{
		{&c.TLS, &o.TLS}, {&c.TLSAcme, &o.TLSAcme}, {&c.TLSUseWildcard, &o.TLSUseWildcard}, {&c.HTTP, &o.HTTP},
	} {
		*b.value = *b.value || *b.over
	}
	if len(o.Services) > 0 {
		c.Services = o.Services
	}
	return c
}

// allows reports whether the Service of that name may be exposed.
func (c Config) allows(service string) bool {
	return len(c.Services) == 0 || slices.Contains(c.Services, service)
}
