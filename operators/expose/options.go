package expose

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// DefaultNamespace is where the operator's manifest puts it.
const DefaultNamespace = "setpoint-system"

// Options configure the operator. The zero value works: it exposes Services of all namespaces as their ConfigMaps say.
type Options struct {
	// Namespace is the operator's own, whose ConfigMap exposecontroller configures all namespaces that have none. Empty:
	// DefaultNamespace.
	Namespace string
	// Namespaces limits the operator to these. Empty: all. It then watches, and needs to be allowed, nothing in others, but
	// for ConfigMaps in Namespace.
	Namespaces []string
	// Config has the last word: what it sets counts, whatever the ConfigMaps say.
	Config Config
}

// check returns all that is wrong with the options, judged by what a Service would be told.
func (o Options) check() error {
	c := o.Config
	var errs []error
	if _, err := parseTemplate(c.URLTemplate); err != nil {
		errs = append(errs, fmt.Errorf("urltemplate: %w", err))
	}
	s := &settings{service: &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "service"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}}
	for _, part := range []Config{
		{Exposer: c.Exposer}, {Domain: c.Domain}, {PathMode: c.PathMode}, {PathType: c.PathType},
		{Exposer: exposerIngress, IngressClass: c.IngressClass}, {Exposer: exposerIngress, TLSSecretName: c.TLSSecretName},
		{Exposer: exposerRoute, Gateway: c.Gateway},
	} {
		part.Domain, part.Gateway, part.NodeIP = cmp.Or(part.Domain, "example.com"), cmp.Or(part.Gateway, "gateway"), "192.0.2.1"
		s.plan(part, facts{routes: true})
	}
	for _, p := range s.problems {
		errs = append(errs, errors.New(strings.TrimSuffix(p.note, stays)))
	}
	for _, namespace := range append([]string{o.Namespace}, o.Namespaces...) {
		if wrong := validation.IsDNS1123Label(namespace); len(wrong) > 0 {
			errs = append(errs, fmt.Errorf("%q is no name of a namespace: %s", namespace, strings.Join(wrong, "; ")))
		}
	}
	return errors.Join(errs...)
}

// AddFlags adds a flag for each option to fs, with the present value as the default.
func (o *Options) AddFlags(fs *flag.FlagSet) {
	c := &o.Config
	if o.Namespace == "" {
		o.Namespace = DefaultNamespace
	}
	fs.StringVar(&o.Namespace, "namespace", o.Namespace, "the operator's own namespace, whose ConfigMap exposecontroller configures all that have none")
	fs.Var((*list)(&o.Namespaces), "namespaces", "the only namespaces to watch, separated by commas (default: all)")
	fs.Var((*list)(&c.Services), "services", "the only Services that may be exposed, by name, separated by commas (default: all that ask)")
	for _, f := range []struct {
		value       *string
		name, usage string
	}{
		{&c.Exposer, "exposer", "Ingress, HTTPRoute, NodePort, LoadBalancer or Auto"},
		{&c.Domain, "domain", "the domain that hosts end in"},
		{&c.InternalDomain, "internal-domain", "the domain of Services that ask for the internal one"},
		{&c.URLTemplate, "urltemplate", "Go template of the host, of Service, Namespace, Domain, Name and Labels"},
		{&c.PathMode, "path-mode", `"path" puts all Services on the domain itself, below /<namespace>/<service>`},
		{&c.PathType, "path-type", "Prefix, Exact or ImplementationSpecific"},
		{&c.TLSClusterIssuer, "tls-cluster-issuer", "the cert-manager ClusterIssuer to ask for certificates"},
		{&c.TLSSecretName, "tls-secret-name", "the Secret of the certificate"},
		{&c.IngressClass, "ingress-class", "the class of Ingresses"},
		{&c.Gateway, "gateway", "the Gateways of HTTPRoutes as [namespace/]name[/section], separated by commas"},
		{&c.NodeIP, "node-ip", "the address in the URLs of node ports"},
		{&c.APIServer, "apiserver", "host:port of the API server, for ConfigMaps that ask for it"},
		{&c.APIServerProtocol, "apiserver-protocol", "the API server's protocol, for ConfigMaps that ask for it"},
		{&c.ConsoleURL, "console-url", "the console's URL, for ConfigMaps that ask for it"},
		{&c.AuthorizePath, "authorize-path", "the path of the API server's OAuth authorization, for ConfigMaps that ask for it"},
	} {
		fs.StringVar(f.value, f.name, *f.value, f.usage)
	}
	for _, f := range []struct {
		value       *bool
		name, usage string
	}{
		{&c.TLS, "tls", "make URLs https"},
		{&c.TLSAcme, "tls-acme", `annotate Ingresses with kubernetes.io/tls-acme: "true"`},
		{&c.TLSUseWildcard, "tls-use-wildcard", "make *.<domain> the TLS host"},
		{&c.HTTP, "http", "make http the protocol that ConfigMaps are given"},
	} {
		fs.BoolVar(f.value, f.name, *f.value, f.usage)
	}
}

// list is a flag's value: items separated by commas.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

func (l *list) Set(text string) error {
	*l = split(text)
	return nil
}

// split returns the items of a list separated by commas, without space around them and without empty ones.
func split(text string) []string {
	var items []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}
