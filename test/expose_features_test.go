package test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/operators/expose"
	"github.com/setpoint-dev/setpoint/plane/planetest"
)

// The example does what its comments say.
func TestExposeExample(t *testing.T) {
	inExposing(t, func(e *exposing) {
		planetest.Apply(e, e.p, "../operators/expose/example")
		e.start("one", expose.Options{})
		e.reached(serviceWith("web"), "https://web-default.example.com")
		i := e.routed("web", map[string]string{"web-default.example.com/": "web"})
		if i.Annotations["cert-manager.io/cluster-issuer"] != "letsencrypt" || i.Annotations["nginx.ingress.kubernetes.io/proxy-body-size"] != "8m" ||
			len(i.Spec.TLS) != 1 || i.Spec.TLS[0].SecretName != "tls-web" {
			e.Errorf("got %v and %+v", i.Annotations, i.Spec.TLS)
		}
		links := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "links"}}
		want := map[string]string{"THEME": "dark", "WEB_URL": "https://web-default.example.com", "WEB_HOST": "web-default.example.com"}
		planetest.Wait(e, e.p, links, func(cm *corev1.ConfigMap) bool { return cmp.Equal(want, cm.Data) })
	})
}

func TestExposeNodePort(t *testing.T) {
	inExposing(t, func(e *exposing) {
		e.start("one", expose.Options{Config: expose.Config{Exposer: "NodePort", NodeIP: "192.0.2.1"}})
		web := exposedService("web")
		web.Spec.Ports[0].NodePort = 30080
		web.Spec.Type = corev1.ServiceTypeNodePort
		db := exposedService("db")
		e.create(web, db)
		e.reached(web, "http://192.0.2.1:30080")
		planetest.Wait(e, e.p, db, func(s *corev1.Service) bool { return s.Annotations[urlAnnotation] != "" })

		// Drift is healed; a type that was there before stays, and one that was not goes.
		change(e, db, func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
		planetest.Wait(e, e.p, db, func(s *corev1.Service) bool { return s.Spec.Type == corev1.ServiceTypeNodePort })
		e.annotate(web, exposeAnnotation, "")
		e.annotate(db, exposeAnnotation, "")
		if web := e.reached(web, ""); web.Spec.Type != corev1.ServiceTypeNodePort || len(web.Annotations) > 0 {
			e.Errorf("the user's type is gone: %s %v", web.Spec.Type, web.Annotations)
		}
		planetest.Wait(e, e.p, db, func(s *corev1.Service) bool {
			return s.Spec.Type == corev1.ServiceTypeClusterIP && s.Spec.Ports[0].NodePort == 0 && len(s.Annotations) == 0
		})
	})
}

func TestExposeLoadBalancer(t *testing.T) {
	inExposing(t, func(e *exposing) {
		e.start("one", expose.Options{Config: expose.Config{Exposer: "LoadBalancer"}})
		web := exposedService("web")
		web.Spec.Type = corev1.ServiceTypeNodePort
		e.create(web)
		planetest.Wait(e, e.p, web, func(s *corev1.Service) bool { return s.Spec.Type == corev1.ServiceTypeLoadBalancer })
		balanced := web.DeepCopy()
		balanced.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.9"}}
		if err := e.user.Status().Patch(e.Context(), balanced, client.MergeFrom(web)); err != nil {
			e.Fatal(err)
		}
		e.reached(web, "http://203.0.113.9")
		e.annotate(web, exposeAnnotation, "")
		back := planetest.Wait(e, e.p, web, func(s *corev1.Service) bool { return s.Spec.Type == corev1.ServiceTypeNodePort })
		if e.reached(web, ""); back.Spec.Ports[0].NodePort == 0 {
			e.Errorf("the Service is not what it was: %+v", back.Spec)
		}
	})
}

// A ConfigMap of a namespace counts for that namespace, the one in the operator's own for all others, and flags for all.
func TestExposeConfigurations(t *testing.T) {
	inExposing(t, func(e *exposing) {
		e.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}})
		all, team := settings("setpoint-system", "domain: example.com\nhttp: true"), settings("default", "domain: team.example.com\ningress-class: their-own")
		teams, web := exposedService("web"), exposedService("web")
		web.Namespace = "other"
		e.create(all, team, web, teams)
		e.start("one", expose.Options{Config: expose.Config{IngressClass: "by-flag"}})
		e.reached(web, "http://web.other.example.com")
		e.reached(teams, "http://web.default.team.example.com")
		for _, namespace := range []string{"default", "other"} {
			i := ingressNamed("web")
			i.Namespace = namespace
			planetest.Wait(e, e.p, i, func(i *networkingv1.Ingress) bool { return *i.Spec.IngressClassName == "by-flag" })
		}

		// A configuration that makes no sense changes nothing, and heals.
		change(e, team, func(cm *corev1.ConfigMap) { cm.Data["config.yml"] = "domain: [" })
		e.told(team, "InvalidConfiguration", "stays as it is")
		change(e, all, func(cm *corev1.ConfigMap) {
			cm.Data["config.yml"] = "domain: example.org\nurltemplate: '{{.Service}}.{{.Domain}}'"
		})
		e.reached(web, "http://web.example.org")
		e.reached(teams, "http://web.default.team.example.com")
		change(e, team, func(cm *corev1.ConfigMap) { cm.Data["config.yml"] = "domain: team.example.org" })
		e.reached(teams, "http://web.default.team.example.org")
		e.delete(team)
		e.reached(teams, "http://web.example.org")

		// What is not supported is answered, and what is there stays.
		change(e, all, func(cm *corev1.ConfigMap) { cm.Data["config.yml"] = "domain: example.net\nexposer: Route" })
		e.told(teams, "UnsupportedExposer", "use Ingress")
		e.reached(web, "http://web.example.org")

		// No configuration is needed to withdraw.
		change(e, all, func(cm *corev1.ConfigMap) { cm.Data["config.yml"] = "- nonsense" })
		e.annotate(teams, exposeAnnotation, "")
		e.reached(teams, "")
		planetest.WaitGone(e, e.p, ingressNamed("web"))
		e.reached(web, "http://web.example.org")
	})
}

// The domain comes of the Nodes, and follows them.
func TestExposeFollowsNodes(t *testing.T) {
	inExposing(t, func(e *exposing) {
		e.start("one", expose.Options{})
		web := exposedService("web")
		e.create(web)
		address := ""
		var nodes corev1.NodeList
		if err := e.user.List(e.Context(), &nodes); err != nil || len(nodes.Items) != 1 {
			e.Fatalf("%d nodes, error %v", len(nodes.Items), err)
		}
		for _, a := range nodes.Items[0].Status.Addresses {
			if a.Type == corev1.NodeInternalIP {
				address = a.Address
			}
		}
		e.reached(web, "http://web.default."+address+".nip.io")
		e.annotate(&nodes.Items[0], "fabric8.io/externalIP", "203.0.113.7")
		e.reached(web, "http://web.default.203.0.113.7.nip.io")
	})
}

// Only the namespaces that are named are watched.
func TestExposeNamespaces(t *testing.T) {
	inExposing(t, func(e *exposing) {
		e.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}})
		theirs, ours := exposedService("web"), exposedService("web")
		theirs.Namespace = "team"
		e.create(settings("setpoint-system", "domain: example.com"), theirs, ours)
		sent := &requestLog{}
		e.start("one", expose.Options{Namespaces: []string{"default"}}, sent.wrap)
		e.reached(ours, "http://web.default.example.com")
		e.reached(theirs, "")
		for _, line := range sent.take() {
			if line == "GET /api/v1/services" || line == "WATCH /api/v1/services" {
				e.Errorf("all namespaces are watched: %s", line)
			}
			if strings.Contains(line, "/namespaces/setpoint-system/services") {
				e.Errorf("a Service of the operator's namespace is read, where it need not be allowed to: %s", line)
			}
		}
	})
}

// An injection gives back what it replaced, and takes away what it added.
func TestExposeInjection(t *testing.T) {
	inExposing(t, func(e *exposing) {
		e.start("one", inExample)
		web := exposedService("web", "fabric8.io/ingress.annotations", "broken")
		before := map[string]string{"OLD": "before", "OTHER": "mine"}
		app := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "app", Annotations: map[string]string{
				"expose.setpoint.dev/inject": "OLD: web\nNEW: web host\nBAD: web colour\n",
			}},
			Data: before,
		}
		e.create(app, web)
		hold := func(want map[string]string) {
			e.Helper()
			planetest.Wait(e, e.p, app, func(cm *corev1.ConfigMap) bool { return cmp.Equal(want, cm.Data) })
		}
		hold(map[string]string{"OLD": "http://web.default.example.com", "NEW": "web.default.example.com", "OTHER": "mine"})
		e.told(app, "InvalidInjection", "colour")
		e.told(web, "InvalidAnnotation", "broken")

		change(e, app, func(cm *corev1.ConfigMap) { cm.Data["OLD"] = "edited" })
		hold(map[string]string{"OLD": "http://web.default.example.com", "NEW": "web.default.example.com", "OTHER": "mine"})
		e.annotate(web, exposeAnnotation, "")
		hold(before)
		e.annotate(web, exposeAnnotation, "true")
		hold(map[string]string{"OLD": "http://web.default.example.com", "NEW": "web.default.example.com", "OTHER": "mine"})
		e.annotate(app, "expose.setpoint.dev/inject", "")
		hold(before)
		if left := planetest.Wait(e, e.p, app, func(cm *corev1.ConfigMap) bool { return len(cm.Annotations) == 0 }); left == nil {
			e.Error("annotations are left")
		}
	})
}

// Cleanup removes what the operator made, and nothing else.
func TestExposeCleanup(t *testing.T) {
	inExposing(t, func(e *exposing) {
		planetest.Apply(e, e.p, "testdata/httproutes.yaml")
		users := ingressNamed("users")
		users.Labels = map[string]string{"app.kubernetes.io/managed-by": "setpoint-expose"}
		users.Annotations = map[string]string{"expose.setpoint.dev/made-for": "default/users"}
		users.Spec.Rules = []networkingv1.IngressRule{{Host: "users.example.com"}}
		app := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-config", Annotations: map[string]string{"expose.setpoint.dev/inject": "URL: web"}},
			Data:       map[string]string{"URL": "before"},
		}
		web, port := exposedService("web"), exposedService("web-port", "expose.setpoint.dev/exposer", "NodePort")
		route := exposedService("web-route", "expose.setpoint.dev/exposer", "HTTPRoute", "expose.setpoint.dev/gateway", "public")
		other := exposedService("other")
		e.create(users, app, web, port, route, other)
		stop := e.start("one", inExample)
		for _, s := range []*corev1.Service{web, port, route, other} {
			planetest.Wait(e, e.p, s, func(s *corev1.Service) bool { return s.Annotations[urlAnnotation] != "" })
		}
		planetest.Wait(e, e.p, app, func(cm *corev1.ConfigMap) bool { return cm.Data["URL"] == "http://web.default.example.com" })
		stop()

		if err := expose.Cleanup(e.Context(), e.user, "web"); err != nil {
			e.Fatal(err)
		}
		planetest.WaitGone(e, e.p, ingressNamed("web"))
		planetest.WaitGone(e, e.p, routeNamed("web-route"))
		for _, s := range []*corev1.Service{web, port, route} {
			if s := e.reached(s, ""); s.Spec.Type != corev1.ServiceTypeClusterIP || s.Annotations["expose.setpoint.dev/previous-type"] != "" {
				e.Errorf("left on Service %s: type %s, %v", s.Name, s.Spec.Type, s.Annotations)
			}
		}
		planetest.Wait(e, e.p, app, func(cm *corev1.ConfigMap) bool { return cm.Data["URL"] == "before" && len(cm.Annotations) == 1 })
		e.reached(other, "http://other.default.example.com")
		e.routed("other", map[string]string{"other.default.example.com/": "other"})
		planetest.Wait(e, e.p, users, exists)

		if err := expose.Cleanup(e.Context(), e.user, ""); err != nil {
			e.Fatal(err)
		}
		planetest.WaitGone(e, e.p, ingressNamed("other"))
		planetest.Wait(e, e.p, users, exists)
	})
}

// The server gives an Ingress without a class the default one, beside which an annotation would name a second.
func TestExposeClassByAnnotation(t *testing.T) {
	inExposing(t, func(e *exposing) {
		e.create(&networkingv1.IngressClass{
			ObjectMeta: metav1.ObjectMeta{Name: "default", Annotations: map[string]string{"ingressclass.kubernetes.io/is-default-class": "true"}},
			Spec:       networkingv1.IngressClassSpec{Controller: "example.com/default"},
		})
		time.Sleep(time.Second) // admission has heard of it
		e.start("one", inExample)
		early, late := exposedService("early", "fabric8.io/ingress.annotations", "kubernetes.io/ingress.class: nginx"), exposedService("late")
		e.create(early, late)
		e.reached(early, "http://early.default.example.com")
		e.reached(late, "http://late.default.example.com")
		e.annotate(late, "fabric8.io/ingress.annotations", "kubernetes.io/ingress.class: nginx")
		classless := func(i *networkingv1.Ingress) bool {
			return i.Annotations["kubernetes.io/ingress.class"] == "nginx" && i.Spec.IngressClassName == nil
		}
		planetest.Wait(e, e.p, ingressNamed("early"), classless)
		planetest.Wait(e, e.p, ingressNamed("late"), classless)
		e.annotate(early, "fabric8.io/ingress.annotations", "")
		planetest.Wait(e, e.p, ingressNamed("early"), func(i *networkingv1.Ingress) bool { return i.Annotations["kubernetes.io/ingress.class"] == "" })
	})
}

// Exposecontroller wrote the same URL before, and a user applied what kubectl showed: they own it, too.
func TestExposeWithdrawsURLsThatOthersWroteAsWell(t *testing.T) {
	inExposing(t, func(e *exposing) {
		const url = "http://web.default.example.com"
		e.start("one", inExample)
		web := exposedService("web", legacyURL, url, urlAnnotation, url)
		e.create(web)
		planetest.Wait(e, e.p, web, func(s *corev1.Service) bool {
			return slices.ContainsFunc(s.ManagedFields, func(f metav1.ManagedFieldsEntry) bool { return f.Manager == expose.FieldOwner })
		})
		e.annotate(web, exposeAnnotation, "")
		e.reached(web, "")
	})
}
