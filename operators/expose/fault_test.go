package expose

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// The tests in this file are about faults of exposecontroller, by their numbers. Those that take a cluster to show are in
// test/expose_test.go.

// It returned early once the Service's path was in the Ingress, so that no later change was applied.
func TestExposeFault01ChangesOfTLSClassAnnotationsHostAndPortAreApplied(t *testing.T) {
	before, _ := ingressOf(t, example, nil, exposed("web"))
	for _, test := range []struct {
		why     string
		service *corev1.Service
		config  Config
		changed func(*networkingv1.Ingress) any
		want    any
	}{
		{"TLS", exposed("web"), Config{Domain: "example.com", TLSSecretName: "cert"}, func(i *networkingv1.Ingress) any { return i.Spec.TLS[0].SecretName }, "cert"},
		{"class", exposed("web"), Config{Domain: "example.com", IngressClass: "nginx"}, func(i *networkingv1.Ingress) any { return *i.Spec.IngressClassName }, "nginx"},
		{"annotations", exposed("web", annotationsLegacy, "a.io/b: c"), example, func(i *networkingv1.Ingress) any { return i.Annotations["a.io/b"] }, "c"},
		{"host", exposed("web"), Config{Domain: "example.org"}, func(i *networkingv1.Ingress) any { return i.Spec.Rules[0].Host }, "web.shop.example.org"},
		{"port", exposed("web", portLegacy, "8080"), example, func(i *networkingv1.Ingress) any {
			return i.Spec.Rules[0].HTTP.Paths[0].Backend.Service.Port.Number
		}, int32(8080)},
	} {
		after, _ := ingressOf(t, test.config, before, test.service)
		if got := test.changed(after); got != test.want {
			t.Errorf("a change of the %s is not applied: got %v, want %v", test.why, got, test.want)
		}
	}
}

// A line without a colon, even the empty one after a newline at the end, was a panic.
func TestExposeFault05AnnotationLinesWithoutColonAreReported(t *testing.T) {
	p := planOf(exposed("web", annotationsLegacy, "a.io/b: c:d\n\nnonsense\n: x\ne.io/f:g\n"), example, facts{})
	if diff := cmp.Diff(map[string]string{"a.io/b": "c:d", "e.io/f": "g"}, p.annotations); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if p.held || reasons(p.problems) != reasonInvalidAnnotation+" "+reasonInvalidAnnotation || !strings.Contains(p.problems[0].note, `"nonsense"`) {
		t.Errorf("got %+v", p.problems)
	}
	if p := planOf(exposed("web", annotationsLegacy, "a.io/b: c\n"), example, facts{}); len(p.problems) > 0 {
		t.Errorf("a newline at the end: %+v", p.problems)
	}
}

// Both were panics.
func TestExposeFault06ServiceWithoutPortsAndRuleWithoutHTTP(t *testing.T) {
	bare := exposed("web")
	bare.Spec.Ports = nil
	for _, exposer := range []string{"", "HTTPRoute", "NodePort", "LoadBalancer"} {
		if p := planOf(bare, Config{Domain: "example.com", Exposer: exposer}, facts{routes: true}); !p.held || reasons(p.problems) != reasonNoPorts {
			t.Errorf("%s: got %+v", exposer, p)
		}
	}
	claimed := claimIngress(webKey, "web.example.com")
	if got, _ := desiredIngress(webKey, membersOf([]corev1.Service{*bare}, example, facts{}), claimed); got != nil {
		t.Errorf("something comes of a rule without HTTP: %+v", got)
	}
	ingressOf(t, example, claimed, exposed("web"))
}

// The whole list of rules was replaced by the one of the Service at hand.
func TestExposeFault07RulesOfAllServicesAreThere(t *testing.T) {
	a := exposed("a", ingressNameOwn, "web", hostOwn, "a.example.com")
	b := exposed("b", ingressNameOwn, "web", hostOwn, "b.example.com")
	before, _ := ingressOf(t, example, nil, a)
	got, _ := ingressOf(t, example, before, a, b)
	if diff := cmp.Diff(map[string]string{"a.example.com/": "a", "b.example.com/": "b"}, routesOf(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Each variant changed the URL that the next one, of this ConfigMap or another, started from.
func TestExposeFault10VariantsOfURLDoNotAffectEachOther(t *testing.T) {
	web := exposed("web", urlOwn, "https://web.example.com/shop/")
	cm := newConfigMap("app", nil,
		"expose.service-key.config.fabric8.io/web", "PLAIN,PLAIN_TOO", "expose-full.service-key.config.fabric8.io/web", "FULL",
		"expose-no-path.service-key.config.fabric8.io/web", "NO_PATH", "expose-no-protocol.service-key.config.fabric8.io/web", "NO_PROTOCOL",
		"expose-full-no-protocol.service-key.config.fabric8.io/web", "FULL_NO_PROTOCOL")
	got, wrong := injectInto(cm, Config{}, web)
	if diff := cmp.Diff(map[string]string{
		"PLAIN": "https://web.example.com/shop", "PLAIN_TOO": "https://web.example.com/shop", "FULL": "https://web.example.com/shop/",
		"NO_PATH": "https://web.example.com/", "NO_PROTOCOL": "web.example.com/shop", "FULL_NO_PROTOCOL": "web.example.com/shop/",
	}, got); diff != "" || len(wrong) > 0 {
		t.Errorf("problems %v, (-want +got):\n%s", wrong, diff)
	}
	next := newConfigMap("next", nil, "expose.service-key.config.fabric8.io/web", "URL")
	if got, _ := injectInto(next, Config{}, web); got["URL"] != "https://web.example.com/shop" {
		t.Errorf("the next ConfigMap gets %q", got["URL"])
	}
}

// The error was dropped, and hosts like "%!s(MISSING)" came out.
func TestExposeFault11TemplateErrorsAreReported(t *testing.T) {
	for _, template := range []string{"{{.Service", "{{.Colour}}.{{.Domain}}", "{{.Labels.tier}}.{{.Domain}}", "{{nonsense}}", "-{{.Domain}}"} {
		p := planOf(exposed("web"), Config{Domain: "example.com", URLTemplate: template}, facts{})
		if !p.held || reasons(p.problems) != reasonInvalidHost {
			t.Errorf("%s: got %+v", template, p)
		}
	}
}

// Each pass appended a newline, so the ConfigMap grew and Pods rolled for ever.
func TestExposeFault12RewritingAFileTwiceIsRewritingItOnce(t *testing.T) {
	item := rewriting{Key: "f", Prefix: "url=", Expression: "url"}
	for _, file := range []string{"", "\n", "url=", "a\nurl=x", "a\nurl=x\n", "a\r\nurl=x\r\n\r\n", "no line"} {
		once := rewrite(file, item, "http://web")
		if twice := rewrite(once, item, "http://web"); twice != once {
			t.Errorf("%q becomes %q and then %q", file, once, twice)
		}
		if strings.Count(once, "\n") != strings.Count(file, "\n") {
			t.Errorf("%q becomes %q: lines come or go", file, once)
		}
	}
}
