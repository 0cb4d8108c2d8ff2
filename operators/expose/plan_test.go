package expose

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// example is a configuration that is complete enough.
var example = Config{Domain: "example.com"}

// newService returns a Service as the server hands it out, with annotations given as names and values in turn.
func newService(name string, annotations ...string) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-of-" + name), Annotations: map[string]string{}},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.0.0.7",
			Ports: []corev1.ServicePort{{Name: "web", Port: 80}, {Name: "admin", Port: 8080}},
		},
	}
	for i := 0; i < len(annotations); i += 2 {
		s.Annotations[annotations[i]] = annotations[i+1]
	}
	return s
}

// exposed returns newService with the annotation that asks for it to be exposed.
func exposed(name string, annotations ...string) *corev1.Service {
	return newService(name, append(annotations, askOwn, "true")...)
}

// reasons returns the reasons of problems, in their order.
func reasons(found []problem) string {
	var words []string
	for _, p := range found {
		words = append(words, p.reason)
	}
	return strings.Join(words, " ")
}

func TestAsks(t *testing.T) {
	labelled := newService("web")
	labelled.Labels = map[string]string{"expose": "true"}
	refusing := newService("web", askOwn, "false")
	refusing.Labels = labelled.Labels
	for _, test := range []struct {
		why     string
		service *corev1.Service
		want    bool
	}{
		{"asks for nothing", newService("web"), false},
		{"own annotation", newService("web", "expose.setpoint.dev/expose", "true"), true},
		{"with a newline at the end", newService("web", "expose.setpoint.dev/expose", "true\n"), true},
		{"exposecontroller's annotation", newService("web", "fabric8.io/expose", "true"), true},
		{"exposecontroller's says no", newService("web", "fabric8.io/expose", "false"), false},
		{"injection", newService("web", "fabric8.io/inject", "true"), true},
		{"label", labelled, true},
		{"own annotation has the last word", refusing, false},
		{"own annotation makes no sense", newService("web", "expose.setpoint.dev/expose", "yes please"), false},
	} {
		if got := asks(test.service); got != test.want {
			t.Errorf("%s: got %t", test.why, got)
		}
	}
	if got := reasons(planOf(newService("web", askOwn, "yes please"), example, facts{}).problems); got != reasonInvalidAnnotation {
		t.Errorf("what makes no sense is answered by %q", got)
	}
}

func TestPlanOfHosts(t *testing.T) {
	for _, test := range []struct {
		why      string
		service  *corev1.Service
		config   Config
		host     string
		path     string
		url      string
		problems string
	}{
		{why: "as it is", service: exposed("web"), config: example, host: "web.shop.example.com", path: "/", url: "http://web.shop.example.com"},
		{why: "host name", service: exposed("web", "fabric8.io/host.name", "www"), config: example, host: "www.shop.example.com", path: "/", url: "http://www.shop.example.com"},
		{why: "Ingress name is the host's, too", service: exposed("web", "fabric8.io/ingress.name", "front"), config: example, host: "front.shop.example.com", path: "/", url: "http://front.shop.example.com"},
		{why: "template", service: exposed("web"), config: Config{Domain: "example.com", URLTemplate: "{{.Namespace}}-{{.Service}}.{{.Domain}}"}, host: "shop-web.example.com", path: "/", url: "http://shop-web.example.com"},
		{why: "a host of its own", service: exposed("web", hostOwn, "Shop.Example.org"), host: "shop.example.org", path: "/", url: "http://shop.example.org"},
		{why: "a template of its own", service: exposed("web", hostOwn, "{{.Name}}.example.org"), config: example, host: "web.example.org", path: "/", url: "http://web.example.org"},
		{why: "internal domain", service: exposed("web", "fabric8.io/use.internal.domain", "true"), config: Config{Domain: "example.com", InternalDomain: "internal"}, host: "web.shop.internal", path: "/", url: "http://web.shop.internal"},
		{why: "exposecontroller's path is not in the URL", service: exposed("web", "fabric8.io/ingress.path", "/api/"), config: example, host: "web.shop.example.com", path: "/api/", url: "http://web.shop.example.com"},
		{why: "own path is", service: exposed("web", pathOwn, "api"), config: example, host: "web.shop.example.com", path: "/api", url: "http://web.shop.example.com/api"},
		{why: "a path for the URL alone", service: exposed("web", "api.service.kubernetes.io/path", "v1/swagger"), config: example, host: "web.shop.example.com", path: "/", url: "http://web.shop.example.com/v1/swagger"},
		{why: "path mode", service: exposed("web"), config: Config{Domain: "example.com", PathMode: "path"}, host: "example.com", path: "/shop/web/", url: "http://example.com/shop/web/"},
		{why: "path mode and path", service: exposed("web", "fabric8.io/path.mode", "path", "fabric8.io/ingress.path", "/api"), config: example, host: "example.com", path: "/shop/web/api", url: "http://example.com/shop/web/api"},
		{why: "TLS", service: exposed("web"), config: Config{Domain: "example.com", TLSAcme: true}, host: "web.shop.example.com", path: "/", url: "https://web.shop.example.com"},
		{why: "TLS, but not here", service: exposed("web", "jenkins-x.io/skip.tls", "true"), config: Config{Domain: "example.com", TLSAcme: true}, host: "web.shop.example.com", path: "/", url: "http://web.shop.example.com"},
		{why: "no domain", service: exposed("web"), problems: reasonNoDomain},
		{why: "no internal domain", service: exposed("web", internalOwn, "true"), config: example, problems: reasonNoDomain},
		{why: "no host", service: exposed("web", hostOwn, "not a host"), problems: reasonInvalidHost},
		{why: "not allowed", service: exposed("web"), config: Config{Domain: "example.com", Services: []string{"api"}}},
		{why: "no Ingress name", service: exposed("web", ingressNameOwn, "Not A Name"), config: example, problems: reasonInvalidAnnotation},
		{why: "no path", service: exposed("web", pathOwn, "/a//b"), config: example, problems: reasonInvalidAnnotation},
		{why: "no path mode", service: exposed("web", pathModeOwn, "sub"), config: example, problems: reasonInvalidAnnotation},
		{why: "no path type", service: exposed("web", pathTypeOwn, "glob"), config: example, problems: reasonInvalidAnnotation},
		{why: "OpenShift's Route", service: exposed("web"), config: Config{Domain: "example.com", Exposer: "Route"}, problems: reasonUnsupportedExposer},
		{why: "Ambassador", service: exposed("web"), config: Config{Domain: "example.com", Exposer: "Ambassador"}, problems: reasonUnsupportedExposer},
		{why: "no exposer", service: exposed("web", exposerName, "pigeon"), config: example, problems: reasonUnsupportedExposer},
	} {
		p := planOf(test.service, test.config, facts{})
		if p.host != test.host || p.path != test.path || p.url != test.url || reasons(p.problems) != test.problems {
			t.Errorf("%s: got host %q, path %q, URL %q, problems %v", test.why, p.host, p.path, p.url, p.problems)
		}
		if p.held != (test.problems != "") {
			t.Errorf("%s: held is %t", test.why, p.held)
		}
	}
}

func TestUnsupportedExposersAreAnsweredByWhatToUse(t *testing.T) {
	for _, exposer := range []string{"Route", "Ambassador"} {
		p := planOf(exposed("web"), Config{Domain: "example.com", Exposer: exposer}, facts{})
		if note := p.problems[0].note; !strings.Contains(note, "Ingress") || !strings.Contains(note, "HTTPRoute") {
			t.Errorf("%s: the Event does not say what to use instead: %s", exposer, note)
		}
	}
}

func TestPlanOfRelease(t *testing.T) {
	service := exposed("prod-web")
	service.Labels = map[string]string{"release": "prod"}
	if p := planOf(service, example, facts{}); p.ingressName != "web" || p.host != "web.shop.example.com" {
		t.Errorf("got Ingress %q for %q", p.ingressName, p.host)
	}
	service.Labels["release"] = "prod-web"
	if p := planOf(service, example, facts{}); p.ingressName != "prod-web" {
		t.Errorf("nothing is left of the name: %q", p.ingressName)
	}
}

func TestPort(t *testing.T) {
	for _, test := range []struct {
		wanted, problems string
		want             int32
	}{
		{"", "", 80}, {"8080", "", 8080}, {"8080\n", "", 8080}, {"admin", "", 8080}, {"9090", reasonUnknownPort, 80}, {"many", reasonUnknownPort, 80},
	} {
		p := planOf(exposed("web", "fabric8.io/exposePort", test.wanted), example, facts{})
		if p.port.Port != test.want || reasons(p.problems) != test.problems || p.held {
			t.Errorf("%q: got %d and problems %v", test.wanted, p.port.Port, p.problems)
		}
	}
}

func TestPathType(t *testing.T) {
	for path, want := range map[string]networkingv1.PathType{
		"/": networkingv1.PathTypePrefix, "/api/": networkingv1.PathTypePrefix, "/api(/|$)(.*)": networkingv1.PathTypeImplementationSpecific,
	} {
		if p := planOf(exposed("web", pathOwn, path), example, facts{}); p.pathType != want {
			t.Errorf("%s: got %s", path, p.pathType)
		}
	}
	if p := planOf(exposed("web", pathTypeOwn, "exact"), example, facts{}); p.pathType != networkingv1.PathTypeExact {
		t.Errorf("got %s, want Exact", p.pathType)
	}
}

func TestPlanOfTLS(t *testing.T) {
	for _, test := range []struct {
		why         string
		service     *corev1.Service
		config      Config
		want        tlsPlan
		annotations map[string]string
	}{
		{"none", exposed("web"), Config{}, tlsPlan{}, nil},
		{"ACME", exposed("web"), Config{TLSAcme: true}, tlsPlan{true, "web.shop.example.com", "tls-web"}, map[string]string{"kubernetes.io/tls-acme": "true"}},
		{"issuer", exposed("web"), Config{TLSClusterIssuer: "le"}, tlsPlan{true, "web.shop.example.com", "tls-web"}, map[string]string{"cert-manager.io/cluster-issuer": "le"}},
		{"issuer of its own", exposed("web", annotationsOwn, "cert-manager.io/issuer: mine", tlsOwn, "true"), Config{}, tlsPlan{true, "web.shop.example.com", "tls-web"}, map[string]string{"cert-manager.io/issuer": "mine"}},
		{"Secret", exposed("web"), Config{TLSSecretName: "wild", TLSUseWildcard: true}, tlsPlan{true, "*.example.com", "wild"}, nil},
		{"Secret of its own", exposed("web", tlsSecretOwn, "cert"), Config{TLSAcme: true}, tlsPlan{true, "web.shop.example.com", "cert"}, map[string]string{"kubernetes.io/tls-acme": "true"}},
		{"the controller's certificate", exposed("web"), Config{TLS: true}, tlsPlan{true, "web.shop.example.com", ""}, nil},
		{"not here", exposed("web", tlsOwn, "false"), Config{TLS: true}, tlsPlan{}, nil},
		{"here", exposed("web", tlsOwn, "true", skipTLSLegacy, "true"), Config{}, tlsPlan{true, "web.shop.example.com", ""}, nil},
	} {
		test.config.Domain = "example.com"
		p := planOf(test.service, test.config, facts{})
		if p.tls != test.want {
			t.Errorf("%s: got %+v", test.why, p.tls)
		}
		if want := test.annotations; len(want)+len(p.annotations) > 0 && !cmp.Equal(want, p.annotations) {
			t.Errorf("%s: annotations (-want +got):\n%s", test.why, cmp.Diff(want, p.annotations))
		}
	}
}

func newNode(name string, kind corev1.NodeAddressType, address string) corev1.Node {
	return corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}, Annotations: map[string]string{}},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: kind, Address: address}}},
	}
}

func TestPlanOfNodePort(t *testing.T) {
	config := Config{Exposer: "NodePort"}
	inside, outside := newNode("a", corev1.NodeInternalIP, "192.168.0.1"), newNode("b", corev1.NodeExternalIP, "203.0.113.2")
	chosen := newNode("c", corev1.NodeInternalIP, "192.168.0.3")
	chosen.Annotations[externalIP] = "203.0.113.3"
	assigned := exposed("web")
	assigned.Spec.Type, assigned.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, 30080
	for _, test := range []struct {
		why    string
		config Config
		nodes  []corev1.Node
		url    string
	}{
		{"configured", Config{Exposer: "nodeport", NodeIP: "198.51.100.9"}, nil, "http://198.51.100.9:30080"},
		{"the only Node", config, []corev1.Node{inside}, "http://192.168.0.1:30080"},
		{"an external address", config, []corev1.Node{inside, outside}, "http://203.0.113.2:30080"},
		{"the chosen Node", config, []corev1.Node{inside, outside, chosen}, "http://203.0.113.3:30080"},
	} {
		if p := planOf(assigned, test.config, facts{nodes: test.nodes}); p.url != test.url || len(p.problems) > 0 {
			t.Errorf("%s: got %q, problems %v", test.why, p.url, p.problems)
		}
	}
	if p := planOf(exposed("web"), config, facts{nodes: []corev1.Node{inside}}); p.url != "" || p.held || typeFor(p) != corev1.ServiceTypeNodePort {
		t.Errorf("no port is assigned yet: got %+v", p)
	}
	if p := planOf(assigned, config, facts{}); reasons(p.problems) != reasonNoNode || !p.held {
		t.Errorf("no Node: got %+v", p)
	}
	headless := exposed("web")
	headless.Spec.ClusterIP = corev1.ClusterIPNone
	if p := planOf(headless, config, facts{nodes: []corev1.Node{inside}}); reasons(p.problems) != reasonUnsuitableService || !p.held {
		t.Errorf("headless: got %+v", p)
	}
}

func TestPlanOfLoadBalancer(t *testing.T) {
	config := Config{Exposer: "LoadBalancer"}
	balanced := func(ports []corev1.ServicePort, in ...corev1.LoadBalancerIngress) *corev1.Service {
		s := exposed("web")
		s.Spec.Ports, s.Status.LoadBalancer.Ingress = ports, in
		return s
	}
	http, https := []corev1.ServicePort{{Port: 80}}, []corev1.ServicePort{{Name: "https", Port: 443}}
	for _, test := range []struct {
		service *corev1.Service
		url     string
	}{
		{balanced(http), ""},
		{balanced(http, corev1.LoadBalancerIngress{IP: "203.0.113.1"}), "http://203.0.113.1"},
		{balanced(https, corev1.LoadBalancerIngress{Hostname: "lb.example.com"}), "https://lb.example.com"},
		{balanced([]corev1.ServicePort{{Port: 8080}}, corev1.LoadBalancerIngress{IP: "203.0.113.1"}), "http://203.0.113.1:8080"},
		{balanced(http, corev1.LoadBalancerIngress{IP: "2001:db8::1"}), "http://[2001:db8::1]"},
	} {
		if p := planOf(test.service, config, facts{}); p.url != test.url || typeFor(p) != corev1.ServiceTypeLoadBalancer {
			t.Errorf("got %q, want %q; %+v", p.url, test.url, p.problems)
		}
	}
}

func TestDomainOfNodes(t *testing.T) {
	one, other := newNode("a", corev1.NodeInternalIP, "192.168.0.1"), newNode("b", corev1.NodeInternalIP, "192.168.0.2")
	labelled := newNode("c", corev1.NodeExternalIP, "203.0.113.3")
	labelled.Labels[externalIP] = "true"
	for _, test := range []struct {
		nodes []corev1.Node
		want  string
	}{
		{nil, ""}, {[]corev1.Node{one}, "192.168.0.1.nip.io"}, {[]corev1.Node{one, other}, ""},
		{[]corev1.Node{one, other, labelled}, "203.0.113.3.nip.io"}, {[]corev1.Node{labelled, labelled}, ""},
		{[]corev1.Node{newNode("d", corev1.NodeInternalIP, "2001:db8::1")}, ""},
	} {
		if got := (facts{nodes: test.nodes}).domain(); got != test.want {
			t.Errorf("%d nodes: got %q, want %q", len(test.nodes), got, test.want)
		}
	}
}

func TestAuto(t *testing.T) {
	gateway := Config{Domain: "example.com", Gateway: "infra/public/https"}
	for _, test := range []struct {
		config Config
		routes bool
		want   string
	}{
		{example, true, exposerIngress}, {gateway, false, exposerIngress}, {gateway, true, exposerRoute},
	} {
		if p := planOf(exposed("web"), test.config, facts{routes: test.routes}); p.exposer != test.want {
			t.Errorf("%+v, served %t: got %s", test.config, test.routes, p.exposer)
		}
	}
}

func TestHTTPRouteThatIsNotServedChangesNothing(t *testing.T) {
	config := Config{Domain: "example.com", Exposer: "HTTPRoute", Gateway: "public"}
	if p := planOf(exposed("web"), config, facts{}); !p.held || len(p.problems) > 0 {
		t.Errorf("it is not known yet: got %+v", p)
	}
	if p := planOf(exposed("web"), config, facts{missing: errors.New("no such kind")}); !p.held || reasons(p.problems) != reasonNotServed {
		t.Errorf("it is known: got %+v", p)
	}
}

// A template comes from whoever may annotate a Service. It must take neither long nor much.
func TestTemplatesAreBounded(t *testing.T) {
	double := "{{$a := .Name}}" + strings.Repeat("{{$a = print $a $a}}", 40) + "{{$a}}"
	for _, template := range []string{
		double, strings.ReplaceAll(double, "print", `printf "%s%s"`), `{{printf "%1000000000d" 1}}`, `{{printf "%*d" 1000000000 1}}`,
		"{{range .Labels}}x{{end}}", `{{if true}}{{range .Labels}}x{{end}}{{end}}`, `{{template "host"}}`, strings.Repeat("a", 2000),
	} {
		if host, err := render(template, hostParts{Service: "web", Name: "web", Labels: map[string]string{"a": "b"}}); err == nil {
			t.Errorf("%.60s is accepted, and gives %.60s", template, host)
		}
	}
	got, err := render(`{{if eq .Namespace "shop"}}{{printf "%.3s-%s" .Service .Labels.tier}}{{else}}x{{end}}.{{.Domain}}`,
		hostParts{Service: "website", Namespace: "shop", Domain: "example.com", Labels: map[string]string{"tier": "front"}})
	if err != nil || got != "web-front.example.com" {
		t.Errorf("got %q, error %v", got, err)
	}
}

func TestHostAnnotation(t *testing.T) {
	service := exposed("web", hostAnnotationOwn, "osiris.deislabs.io/ingressHostname")
	p := planOf(service, example, facts{})
	want, _ := desiredService(service, p)
	if diff := cmp.Diff(map[string]string{
		"expose.setpoint.dev/url": "http://web.shop.example.com", "fabric8.io/exposeUrl": "http://web.shop.example.com",
		"osiris.deislabs.io/ingressHostname": "web.shop.example.com",
	}, want.Annotations); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, name := range []string{"fabric8.io/exposeUrl", "fabric8.io/host.name", "fabric8.io/ingress.name", "expose.setpoint.dev/expose", "no name!"} {
		p := planOf(exposed("web", hostAnnotationOwn, name), example, facts{})
		if p.hostAnnotation != "" || reasons(p.problems) != reasonInvalidAnnotation || p.held {
			t.Errorf("%s: got %+v", name, p)
		}
	}
}

func TestTypesAreGivenBack(t *testing.T) {
	lb := plan{exposer: exposerLoadBalancer}
	service := exposed("web")
	service.Spec.Type = corev1.ServiceTypeNodePort
	want, _ := desiredService(service, lb)
	if want.Spec.Type != corev1.ServiceTypeLoadBalancer || want.Annotations[previousType] != "NodePort" {
		t.Errorf("got %+v", want)
	}
	service.Spec.Type, service.Annotations[previousType] = corev1.ServiceTypeLoadBalancer, "NodePort"
	if want, _ := desiredService(service, lb); want.Annotations[previousType] != "NodePort" {
		t.Errorf("it is forgotten once it is replaced: %+v", want.Annotations)
	}
	own := []metav1.ManagedFieldsEntry{{
		Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:type":{}}}`),
	}}
	if got := formerType(service, plan{}, own); got != corev1.ServiceTypeNodePort {
		t.Errorf("got %q back, want NodePort", got)
	}
	if got := formerType(service, plan{}, nil); got != "" {
		t.Errorf("the type is somebody else's now, and is set to %q", got)
	}
	if got := formerType(service, lb, own); got != "" {
		t.Errorf("the type is still needed, and is set to %q", got)
	}
	if want, any := desiredService(service, plan{}); any {
		t.Errorf("nothing is asked for, and is applied: %+v", want)
	}
}
