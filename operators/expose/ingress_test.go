package expose

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var webKey = types.NamespacedName{Namespace: "shop", Name: "web"}

// ingressOf returns the Ingress "web" of Services, which has to be one.
func ingressOf(t *testing.T, c Config, existing *networkingv1.Ingress, services ...*corev1.Service) (*networkingv1.Ingress, map[string]problems) {
	t.Helper()
	list := make([]corev1.Service, len(services))
	for i, s := range services {
		list[i] = *s
	}
	ingress, wrong := desiredIngress(webKey, membersOf(list, c, facts{}), existing)
	if ingress == nil {
		t.Fatal("there is no Ingress")
	}
	return ingress, wrong
}

// routesOf returns the Services that the rules of an Ingress lead to, by host and path.
func routesOf(ingress *networkingv1.Ingress) map[string]string {
	routes := map[string]string{}
	for _, rule := range ingress.Spec.Rules {
		for _, path := range rule.HTTP.Paths {
			routes[rule.Host+path.Path] = path.Backend.Service.Name
		}
	}
	return routes
}

func TestDesiredIngress(t *testing.T) {
	prefix, class := networkingv1.PathTypePrefix, "nginx"
	got, wrong := ingressOf(t, Config{Domain: "example.com", TLSAcme: true, IngressClass: class}, nil,
		exposed("web", annotationsLegacy, "nginx.ingress.kubernetes.io/auth-type: basic\n"))
	want := &networkingv1.Ingress{
		TypeMeta: metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "Ingress"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web",
			Labels: map[string]string{"app.kubernetes.io/managed-by": "setpoint-expose"},
			Annotations: map[string]string{
				"expose.setpoint.dev/made-for": "shop/web", "kubernetes.io/tls-acme": "true", "nginx.ingress.kubernetes.io/auth-type": "basic",
			},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: "web", UID: "uid-of-web"}},
		},
		Spec: networkingv1.IngressSpec{
			IngressClassName: &class,
			TLS:              []networkingv1.IngressTLS{{Hosts: []string{"web.shop.example.com"}, SecretName: "tls-web"}},
			Rules: []networkingv1.IngressRule{{Host: "web.shop.example.com", IngressRuleValue: networkingv1.IngressRuleValue{
				HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{
					Path: "/", PathType: &prefix,
					Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80}}},
				}}},
			}}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" || len(wrong) > 0 {
		t.Errorf("problems %v, (-want +got):\n%s", wrong, diff)
	}
}

func TestIngressClassByAnnotation(t *testing.T) {
	got, _ := ingressOf(t, Config{Domain: "example.com", IngressClass: "nginx"}, nil, exposed("web", annotationsOwn, "kubernetes.io/ingress.class: internal"))
	if got.Spec.IngressClassName != nil || got.Annotations["kubernetes.io/ingress.class"] != "internal" {
		t.Errorf("the server would not accept both: %+v", got)
	}
}

func TestSharedIngress(t *testing.T) {
	share := func(name, path string, more ...string) *corev1.Service {
		return exposed(name, append(more, "fabric8.io/ingress.name", "web", "fabric8.io/ingress.path", path)...)
	}
	front := share("front", "/", annotationsOwn, "a.io/x: 1\na.io/y: 1", ingressClassOwn, "nginx")
	api := share("api", "/api", annotationsOwn, "a.io/x: 2\na.io/z: 2", ingressClassOwn, "other")
	late := share("later", "/api", tlsOwn, "true")
	forward, wrong := ingressOf(t, example, nil, front, api, late)
	backward, _ := ingressOf(t, example, nil, late, api, front)
	if diff := cmp.Diff(forward, backward); diff != "" {
		t.Errorf("the order of the Services matters (-forward +backward):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"web.shop.example.com/": "front", "web.shop.example.com/api": "api"}, routesOf(forward)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if paths := forward.Spec.Rules[0].HTTP.Paths; len(forward.Spec.Rules) != 1 || paths[0].Path != "/api" {
		t.Errorf("the longer path does not come first: %+v", forward.Spec.Rules)
	}
	if len(forward.OwnerReferences) != 2 || metav1.GetControllerOfNoCopy(forward) != nil {
		t.Errorf("not both own it, without controlling it: %+v", forward.OwnerReferences)
	}
	if forward.Annotations["a.io/x"] != "2" || forward.Annotations["a.io/y"] != "1" || forward.Annotations["a.io/z"] != "2" || *forward.Spec.IngressClassName != "other" {
		t.Errorf("the first by name does not have precedence: %+v", forward)
	}
	if len(forward.Spec.TLS) > 0 {
		t.Errorf("a Service without a rule adds TLS: %+v", forward.Spec.TLS)
	}
	if reasons(wrong["front"]) != reasonConflict+" "+reasonConflict || reasons(wrong["later"]) != reasonPathTaken || len(wrong["api"]) > 0 {
		t.Errorf("told: %v", wrong)
	}
}

func TestMalformedServiceKeepsItsPart(t *testing.T) {
	share := func(name, path string) *corev1.Service {
		return exposed(name, ingressNameOwn, "web", pathOwn, path, annotationsOwn, "a.io/"+name+": 1")
	}
	config := Config{Domain: "example.com", TLSSecretName: "cert", IngressClass: "nginx"}
	before, _ := ingressOf(t, config, nil, share("front", "/"), share("api", "/api"))
	before.UID = "uid-of-ingress"
	before.ManagedFields = []metav1.ManagedFieldsEntry{{Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(
		`{"f:metadata":{"f:annotations":{"f:a.io/api":{},"f:a.io/front":{},"f:expose.setpoint.dev/made-for":{}}}}`)}}
	before.Annotations["users.own/annotation"] = "kept by the server, not by us"

	broken := share("api", "/a b")
	after, _ := ingressOf(t, config, before, share("front", "/start"), broken)
	if diff := cmp.Diff(map[string]string{"web.shop.example.com/start": "front", "web.shop.example.com/api": "api"}, routesOf(after)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want := before.DeepCopy()
	want.ManagedFields = nil
	delete(want.Annotations, "users.own/annotation")
	alone, _ := ingressOf(t, config, before, broken, share("front", "/f f"))
	if diff := cmp.Diff(want, alone); diff != "" {
		t.Errorf("nobody makes sense, and it changes (-before +after):\n%s", diff)
	}
	if none, _ := desiredIngress(webKey, membersOf([]corev1.Service{*broken}, config, facts{}), nil); none != nil {
		t.Errorf("an Ingress comes of nothing but a malformed Service: %+v", none)
	}
}

func TestDecide(t *testing.T) {
	for _, test := range []struct {
		why                            string
		exists, mine, deleting, wanted bool
		want                           action
	}{
		{"nothing there, nothing wanted", false, false, false, false, leave},
		{"nothing there", false, false, false, true, create},
		{"a stranger's, not wanted", true, false, false, false, leave},
		{"a stranger's, wanted", true, false, false, true, refuse},
		{"a stranger's on the way out", true, false, true, true, refuse},
		{"its own", true, true, false, true, apply},
		{"its own, on the way out", true, true, true, true, wait},
		{"its own, not wanted", true, true, false, false, remove},
		{"its own, not wanted and on the way out", true, true, true, false, wait},
	} {
		if got := decide(test.exists, test.mine, test.deleting, test.wanted); got != test.want {
			t.Errorf("%s: got action %d, want %d", test.why, got, test.want)
		}
	}
}

func TestWhoseItIs(t *testing.T) {
	wrote := []metav1.ManagedFieldsEntry{{Operation: metav1.ManagedFieldsOperationUpdate}}
	mine := claimIngress(webKey, "web.example.com")
	copied := claimIngress(webKey, "web.example.com")
	copied.Name = "copy"
	for _, test := range []struct {
		why  string
		obj  *networkingv1.Ingress
		own  []metav1.ManagedFieldsEntry
		want bool
	}{
		{"claimed", mine, wrote, true},
		{"made by somebody else with the mark", mine, nil, false},
		{"a copy under another name", copied, wrote, false},
		{"without the mark", &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}, wrote, false},
	} {
		if got := isMine(test.obj, test.own); got != test.want {
			t.Errorf("%s: got %t", test.why, got)
		}
	}
}

func TestWayThrough(t *testing.T) {
	service := exposed("web")
	p := planOf(service, example, facts{})
	ingress, _ := ingressOf(t, example, nil, service)
	if got := wayThrough(ingress, "web", p); got != open {
		t.Errorf("got %d, want it open", got)
	}
	if got := wayThrough(ingress, "other", p); got != blocked {
		t.Errorf("the path leads elsewhere: got %d", got)
	}
	if got := wayThrough(claimIngress(webKey, p.host), "web", p); got != coming {
		t.Errorf("only claimed: got %d", got)
	}
}

func TestDesiredRoute(t *testing.T) {
	p := planOf(exposed("web", pathOwn, "/api"), Config{Domain: "example.com", Exposer: "HTTPRoute", Gateway: "infra/public/https, local"}, facts{routes: true})
	route := desiredRoute(exposed("web"), p, "uid-of-route")
	want := map[string]any{
		"hostnames": []any{"web.shop.example.com"},
		"parentRefs": []any{
			map[string]any{"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "public", "namespace": "infra", "sectionName": "https"},
			map[string]any{"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "local"},
		},
		"rules": []any{map[string]any{
			"matches":     []any{map[string]any{"path": map[string]any{"type": "PathPrefix", "value": "/api"}}},
			"backendRefs": []any{map[string]any{"group": "", "kind": "Service", "name": "web", "port": int64(80), "weight": int64(1)}},
		}},
	}
	if diff := cmp.Diff(want, route.Object["spec"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if route.GetUID() != "uid-of-route" || len(route.GetOwnerReferences()) != 1 || route.GetAnnotations()[mark] != "shop/web" {
		t.Errorf("got %+v", route.Object["metadata"])
	}
	for _, gateway := range []string{"", " , ", "a/b/c/d", "Not A Name", "a/"} {
		p := planOf(exposed("web", gatewayOwn, gateway), Config{Domain: "example.com", Exposer: "HTTPRoute"}, facts{routes: true})
		if !p.held || reasons(p.problems) != reasonNoGateway {
			t.Errorf("%q: got %+v", gateway, p)
		}
	}
}

func TestRefusal(t *testing.T) {
	parent := func(name, status string, generation int64) any {
		return map[string]any{"parentRef": map[string]any{"name": name}, "conditions": []any{
			map[string]any{"type": "Accepted", "status": status, "reason": "NotAllowed", "message": "by listeners", "observedGeneration": generation},
		}}
	}
	for _, test := range []struct {
		why     string
		parents []any
		want    string
	}{
		{"no Gateway has looked yet", nil, ""},
		{"accepted", []any{parent("a", "True", 2)}, ""},
		{"refused", []any{parent("a", "False", 2)}, "a: NotAllowed: by listeners"},
		{"refused before the last change", []any{parent("a", "False", 1)}, ""},
		{"accepted by one", []any{parent("a", "False", 2), parent("b", "True", 2)}, ""},
		{"refused by all", []any{parent("a", "False", 2), parent("b", "False", 2)}, "a: NotAllowed: by listeners; b: NotAllowed: by listeners"},
		{"nonsense", []any{"x"}, ""},
	} {
		route := claimRoute(webKey)
		route.SetGeneration(2)
		route.Object["status"] = map[string]any{"parents": test.parents}
		if got := refusal(route); got != test.want {
			t.Errorf("%s: got %q", test.why, got)
		}
	}
}
