package expose

import (
	"cmp"
	"net"
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// plan is what a Service asks for, made complete by the configuration.
type plan struct {
	// exposer is the way of exposing, and empty for a Service that is not to be exposed.
	exposer string
	// held says that the input makes no sense, so that what is there stays as it is.
	held bool

	ingressName string
	host, path  string
	pathType    networkingv1.PathType
	port        corev1.ServicePort
	tls         tlsPlan
	annotations map[string]string
	class       string
	gateways    []gateway

	// url is where the Service is reached, and empty as long as that is not known. urlHost is its host and, if it has one,
	// its port.
	url, urlHost string
	// hostAnnotation is a further annotation that receives urlHost, or empty.
	hostAnnotation string

	problems problems
}

// tlsPlan is how the host is reached by https.
type tlsPlan struct {
	on           bool
	host, secret string
}

// planOf decides how a Service is exposed. It is a pure function.
func planOf(service *corev1.Service, c Config, f facts) plan {
	s := &settings{service: service}
	p := plan{}
	if s.asked() && c.allows(service.Name) {
		p = s.plan(c, f)
	}
	p.problems = s.problems
	return p
}

// stays ends what is said of input that makes no sense.
const stays = " What is there stays as it is."

// hold is the plan for input that makes no sense.
func (s *settings) hold(reason, format string, args ...any) plan {
	s.problems.add(reason, format+stays, args...)
	return plan{held: true}
}

func (s *settings) plan(c Config, f facts) plan {
	p := plan{exposer: exposerOf(s, c)}
	switch p.exposer {
	case exposerAuto, "":
		p.exposer = exposerIngress
		if f.routes && cmp.Or(s.text(gatewayOwn), c.Gateway) != "" {
			p.exposer = exposerRoute
		}
	case exposerIngress, exposerRoute, exposerNodePort, exposerLoadBalancer:
	case "route":
		return s.hold(reasonUnsupportedExposer, "The exposer Route is not supported: use Ingress, which OpenShift's router serves by Routes that OpenShift makes itself, or HTTPRoute.")
	case "ambassador":
		return s.hold(reasonUnsupportedExposer, "The exposer Ambassador is not supported: use Ingress or HTTPRoute, which Emissary-ingress, its successor, serves.")
	default:
		return s.hold(reasonUnsupportedExposer, "There is no exposer %q: use Ingress, HTTPRoute, NodePort, LoadBalancer or Auto.", p.exposer)
	}
	if p.exposer == exposerRoute && !f.routes {
		if f.missing != nil {
			s.problems.add(reasonNotServed, "The cluster serves no HTTPRoutes of %s: install the Gateway API, or use another exposer. The Service gets one as soon as it does; until then what is there stays as it is. %v", routeKind.GroupVersion(), f.missing)
		}
		return plan{held: true}
	}
	var ok bool
	if p.port, ok = s.port(); !ok {
		return plan{held: true}
	}
	p.hostAnnotation = s.hostAnnotation()
	switch p.exposer {
	case exposerNodePort:
		return s.planNodePort(p, c, f)
	case exposerLoadBalancer:
		return s.planLoadBalancer(p)
	}
	return s.planHost(p, c, f)
}

// exposerOf returns the exposer that a Service is to have, as it is named, in lower case.
func exposerOf(s *settings, c Config) string {
	return strings.ToLower(cmp.Or(s.text(exposerName), c.Exposer))
}

// planNodePort completes the plan of a Service that is exposed by a port of the nodes.
func (s *settings) planNodePort(p plan, c Config, f facts) plan {
	if !s.hasAddress() {
		return s.hold(reasonUnsuitableService, "A Service that is headless or an ExternalName cannot have a node port.")
	}
	address := cmp.Or(c.NodeIP, f.address())
	if address == "" {
		return s.hold(reasonNoNode, "No Node has an address; set node-ip in the configuration.")
	}
	if p.port.NodePort > 0 && s.service.Spec.Type != corev1.ServiceTypeClusterIP {
		p.urlHost = net.JoinHostPort(address, strconv.Itoa(int(p.port.NodePort)))
		p.url = s.withURLPath(schemeOf(p.port) + "://" + p.urlHost)
	}
	return p
}

// planLoadBalancer completes the plan of a Service that is exposed by a load balancer.
func (s *settings) planLoadBalancer(p plan) plan {
	if !s.hasAddress() {
		return s.hold(reasonUnsuitableService, "A Service that is headless or an ExternalName cannot have a load balancer.")
	}
	address := ""
	for _, in := range s.service.Status.LoadBalancer.Ingress {
		if address = cmp.Or(in.Hostname, in.IP); address != "" {
			break
		}
	}
	if address = cmp.Or(address, s.service.Spec.LoadBalancerIP); address == "" {
		return p // it will come
	}
	scheme, number := schemeOf(p.port), strconv.Itoa(int(p.port.Port))
	switch {
	case scheme == "http" && number != "80", scheme == "https" && number != "443":
		p.urlHost = net.JoinHostPort(address, number)
	case strings.Contains(address, ":"):
		p.urlHost = "[" + address + "]"
	default:
		p.urlHost = address
	}
	p.url = s.withURLPath(scheme + "://" + p.urlHost)
	return p
}

// hasAddress reports whether the Service is of a kind that can have node ports.
func (s *settings) hasAddress() bool {
	return s.service.Spec.Type != corev1.ServiceTypeExternalName && s.service.Spec.ClusterIP != corev1.ClusterIPNone
}

// schemeOf returns the scheme of the URL of a port that is reached directly.
func schemeOf(port corev1.ServicePort) string {
	if port.Name == "https" || port.Port == 443 || port.Port == 8443 {
		return "https"
	}
	return "http"
}

// planHost completes the plan of a Service that is exposed by a host name.
func (s *settings) planHost(p plan, c Config, f facts) plan {
	p.ingressName = s.ingressName()
	if wrong := validation.IsDNS1123Subdomain(p.ingressName); len(wrong) > 0 {
		return s.hold(reasonInvalidAnnotation, "%q is no name for an Ingress: %s.", p.ingressName, strings.Join(wrong, "; "))
	}
	if p.port.Protocol != "" && p.port.Protocol != corev1.ProtocolTCP {
		return s.hold(reasonUnsuitableService, "Port %d is %s; only TCP can be exposed by a host name. Name another port by %s.", p.port.Port, p.port.Protocol, portOwn)
	}
	domain, ok := s.domain(c, f)
	if !ok {
		return plan{held: true}
	}
	if p.host, ok = s.host(c, domain); !ok {
		return plan{held: true}
	}
	var pathMode bool
	if p.path, pathMode, ok = s.path(c); !ok {
		return plan{held: true}
	}
	if pathMode {
		p.host = strings.ToLower(domain)
		if err := checkHost(p.host); err != nil {
			return s.hold(reasonInvalidHost, "The domain %q: %v.", domain, err)
		}
	}
	if p.pathType, ok = s.pathType(c, p.path); !ok {
		return plan{held: true}
	}
	if p.gateways, ok = s.gateways(p.exposer, c); !ok {
		return plan{held: true}
	}
	p.annotations = s.extraAnnotations()
	p.class = cmp.Or(s.text(ingressClassOwn), c.IngressClass)
	s.secure(&p, c, domain)
	for _, name := range []string{p.class, p.tls.secret} { // one that the server refuses would stop all that share the Ingress
		if wrong := validation.IsDNS1123Subdomain(name); p.exposer == exposerIngress && name != "" && len(wrong) > 0 {
			return s.hold(reasonInvalidAnnotation, "%q is no name for a class or a Secret: %s.", name, strings.Join(wrong, "; "))
		}
	}
	p.urlHost = p.host
	scheme := "http"
	if p.tls.on {
		scheme = "https"
	}
	p.url = scheme + "://" + p.host
	// exposecontroller left the path that its annotation asks for out of the URL, and users have come to rely on that.
	if pathMode {
		p.url += p.path
	} else if own := s.text(pathOwn); own != "" && p.pathType != networkingv1.PathTypeImplementationSpecific {
		p.url += p.path
	}
	p.url = s.withURLPath(p.url)
	return p
}

// domain returns the domain that the Service's host ends in.
func (s *settings) domain(c Config, f facts) (string, bool) {
	internal, _ := s.truth(internalOwn)
	if internal || s.text(internalLegacy) == "true" {
		if c.InternalDomain == "" {
			s.hold(reasonNoDomain, "The Service asks for the internal domain, which is not known: set internal-domain in the configuration.")
			return "", false
		}
		return c.InternalDomain, true
	}
	return cmp.Or(c.Domain, f.domain()), true
}

// host returns the host that the Service is to have.
func (s *settings) host(c Config, domain string) (string, bool) {
	text := cmp.Or(s.text(hostOwn), c.URLTemplate, defaultTemplate)
	if domain == "" && strings.Contains(text, ".Domain") {
		s.hold(reasonNoDomain, "No domain is known: set domain in the configuration, in the ConfigMap %s or by the flag.", configName)
		return "", false
	}
	host, err := render(text, hostParts{
		Service:   cmp.Or(s.text(hostNameOwn, hostNameLegacy), s.ingressName()),
		Namespace: s.service.Namespace, Domain: domain, Name: s.service.Name,
		Labels: s.service.Labels,
	})
	if err != nil {
		s.hold(reasonInvalidHost, "The host is not known: %v.", err)
		return "", false
	}
	return host, true
}

// path returns the path that leads to the Service, and whether it shares the host with all others.
func (s *settings) path(c Config) (path string, pathMode, ok bool) {
	path = s.text(pathOwn, pathLegacy)
	switch mode := cmp.Or(s.text(pathModeOwn, pathModeLegacy), c.PathMode); mode {
	case "path":
		path = joinPath("/"+s.service.Namespace+"/"+s.ingressName(), cmp.Or(path, "/"))
		pathMode = true
	case "", "host":
		path = cmp.Or(path, "/")
	default:
		s.hold(reasonInvalidAnnotation, "There is no path mode %q: use path or host.", mode)
		return "", false, false
	}
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	if last := path[strings.LastIndex(path, "/"):]; last == "/." || last == "/.." {
		s.hold(reasonInvalidAnnotation, "The path %q must not end in %q.", path, last)
		return "", false, false
	}
	for _, bad := range []string{"//", "/./", "/../", "%2f", "%2F", "%5c", "%5C", " ", "\n"} {
		if strings.Contains(path, bad) {
			s.hold(reasonInvalidAnnotation, "The path %q must not contain %q.", path, bad)
			return "", false, false
		}
	}
	return path, pathMode, true
}

// joinPath joins two parts of a URL with exactly one slash between them.
func joinPath(a, b string) string {
	return strings.TrimSuffix(a, "/") + "/" + strings.TrimPrefix(b, "/")
}

// pathType returns how the path is meant.
func (s *settings) pathType(c Config, path string) (networkingv1.PathType, bool) {
	switch kind := cmp.Or(s.text(pathTypeOwn), c.PathType); strings.ToLower(kind) {
	case "prefix":
		return networkingv1.PathTypePrefix, true
	case "exact":
		return networkingv1.PathTypeExact, true
	case "implementationspecific":
		return networkingv1.PathTypeImplementationSpecific, true
	case "":
		if strings.ContainsAny(path, `()[]{}*+?|^$\`) {
			return networkingv1.PathTypeImplementationSpecific, true
		}
		return networkingv1.PathTypePrefix, true
	default:
		s.hold(reasonInvalidAnnotation, "There is no path type %q: use Prefix, Exact or ImplementationSpecific.", kind)
		return "", false
	}
}

// secure adds to the plan what https needs.
func (s *settings) secure(p *plan, c Config, domain string) {
	secret := s.text(tlsSecretOwn)
	on := c.TLS || c.TLSAcme || c.TLSClusterIssuer != "" || c.TLSSecretName != "" || secret != ""
	if s.text(skipTLSLegacy) == "true" {
		on = false
	}
	if own, known := s.truth(tlsOwn); known {
		on = own
	}
	if !on {
		return
	}
	p.tls = tlsPlan{on: true, host: p.host, secret: cmp.Or(secret, c.TLSSecretName)}
	if c.TLSUseWildcard && domain != "" && strings.HasSuffix(p.host, "."+strings.ToLower(domain)) {
		p.tls.host = "*." + strings.ToLower(domain)
	}
	if p.exposer != exposerIngress {
		return // https ends at the Gateway, whose listeners name the certificate
	}
	asked := c.TLSAcme || c.TLSClusterIssuer != ""
	for key := range p.annotations {
		asked = asked || strings.HasPrefix(key, "cert-manager.io/")
	}
	if asked && p.tls.secret == "" {
		p.tls.secret = "tls-" + p.ingressName
	}
	set := func(key, value string) {
		if _, chosen := p.annotations[key]; !chosen {
			p.annotations[key] = value
		}
	}
	if c.TLSAcme {
		set("kubernetes.io/tls-acme", "true")
	}
	if c.TLSClusterIssuer != "" {
		set("cert-manager.io/cluster-issuer", c.TLSClusterIssuer)
	}
}

// withURLPath appends the path that the Service's URL is to have beyond what leads to it.
func (s *settings) withURLPath(base string) string {
	path := s.text(urlPathOwn, urlPathLegacy)
	if path == "" {
		return base
	}
	whole := joinPath(base, path)
	if _, err := url.Parse(whole); err != nil {
		s.problems.add(reasonInvalidAnnotation, "The path %q is left out of the URL: %v.", path, err)
		return base
	}
	return whole
}
