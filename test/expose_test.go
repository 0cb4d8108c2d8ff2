package test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/lease"
	"github.com/setpoint-dev/setpoint/operators/expose"
	"github.com/setpoint-dev/setpoint/plane/planetest"
)

// What the operator reads and writes, as its README documents it.
const (
	exposeAnnotation = "expose.setpoint.dev/expose"
	urlAnnotation    = "expose.setpoint.dev/url"
	legacyURL        = "fabric8.io/exposeUrl"
	ingressName      = "fabric8.io/ingress.name"
	ingressPath      = "fabric8.io/ingress.path"
)

// exposing is a cluster in which Services are exposed, and a user of it.
type exposing struct {
	testing.TB
	p    planetest.Cluster
	user *client.Client
}

// newExposing returns a cluster whose content is the operator's namespace and rights.
func newExposing(t testing.TB, p planetest.Cluster) *exposing {
	t.Helper()
	planetest.Apply(t, p, "../operators/expose/manifests/rbac.yaml")
	return exposingIn(t, p)
}

func exposingIn(t testing.TB, p planetest.Cluster) *exposing {
	t.Helper()
	user, err := client.New(client.Config{REST: p.RESTConfig(), FieldOwner: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return &exposing{TB: t, p: p, user: user}
}

// inExposing runs a test on a plane of its own, in virtual time.
func inExposing(t *testing.T, test func(e *exposing)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(newExposing(t, planetest.New(t))) })
}

// start runs a replica of that name, whose requests pass the wrappers, and stops it when it is told to or the test ends.
func (e *exposing) start(name string, o expose.Options, wraps ...func(http.RoundTripper) http.RoundTripper) (stop func()) {
	e.Helper()
	config := e.p.RESTConfig()
	for _, wrap := range wraps {
		config.Wrap(wrap)
	}
	return begin(e, e.manager(name, config, o))
}

func (e *exposing) manager(name string, config *rest.Config, o expose.Options) *setpoint.Manager {
	e.Helper()
	m, err := setpoint.NewManager(setpoint.Config{
		REST: config, FieldOwner: expose.FieldOwner, Kinds: expose.Kinds(), Seed: 1,
		LeaderElection: &lease.Config{Namespace: "setpoint-system", Name: "setpoint-expose", Identity: name},
	})
	if err != nil {
		e.Fatal(err)
	}
	if err := expose.Setup(m, o); err != nil {
		e.Fatal(err)
	}
	return m
}

// awaitLeader waits until the replica of that name leads.
func (e *exposing) awaitLeader(name string) {
	e.Helper()
	awaitLeader(e, e.p, "setpoint-expose", name)
}

func (e *exposing) create(objects ...client.Object) {
	e.Helper()
	for _, obj := range objects {
		if err := e.user.Create(e.Context(), obj); err != nil {
			e.Fatal(err)
		}
	}
}

func (e *exposing) delete(obj client.Object) {
	e.Helper()
	if err := e.user.Delete(e.Context(), obj); err != nil {
		e.Fatal(err)
	}
}

// change changes an object at the server, whatever else has changed in it.
func change[T client.Object](e *exposing, obj T, mutate func(T)) {
	e.Helper()
	if err := e.user.Get(e.Context(), client.KeyOf(obj), obj); err != nil {
		e.Fatal(err)
	}
	before := obj.DeepCopyObject().(client.Object)
	mutate(obj)
	if err := e.user.Patch(e.Context(), obj, client.MergeFrom(before)); err != nil {
		e.Fatal(err)
	}
}

// annotate sets an annotation, or removes it when the value is empty.
func (e *exposing) annotate(obj client.Object, name, value string) {
	e.Helper()
	change(e, obj, func(o client.Object) {
		annotations := o.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[name] = value
		if value == "" {
			delete(annotations, name)
		}
		o.SetAnnotations(annotations)
	})
}

// reached waits until a Service says that it is reached at url; an empty one means nowhere.
func (e *exposing) reached(service *corev1.Service, url string) *corev1.Service {
	e.Helper()
	return planetest.Wait(e, e.p, service, func(s *corev1.Service) bool {
		return s.Annotations[urlAnnotation] == url && s.Annotations[legacyURL] == url
	})
}

// told waits until an object's author is told something for that reason that has the words in it.
func (e *exposing) told(obj client.Object, reason, words string) {
	e.Helper()
	awaitEvent(e, e.p, func(event *eventsv1.Event) bool {
		return event.Regarding.Name == obj.GetName() && event.Reason == reason && strings.Contains(event.Note, words)
	})
}

// routed waits until an Ingress leads exactly there: from host and path to a Service.
func (e *exposing) routed(name string, want map[string]string) *networkingv1.Ingress {
	e.Helper()
	return planetest.Wait(e, e.p, ingressNamed(name), func(i *networkingv1.Ingress) bool { return cmp.Equal(want, routesOf(i)) })
}

// routesOf returns the Services that an Ingress leads to, by host and path.
func routesOf(i *networkingv1.Ingress) map[string]string {
	routes := map[string]string{}
	for _, rule := range i.Spec.Rules {
		if rule.HTTP == nil {
			continue
		}
		for _, path := range rule.HTTP.Paths {
			routes[rule.Host+path.Path] = path.Backend.Service.Name
		}
	}
	return routes
}

func ingressNamed(name string) *networkingv1.Ingress {
	return &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

// serviceWith returns a Service with annotations given as names and values in turn.
func serviceWith(name string, annotations ...string) *corev1.Service {
	s := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{}},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "web", Port: 80}, {Name: "admin", Port: 8080}}},
	}
	for i := 0; i < len(annotations); i += 2 {
		s.Annotations[annotations[i]] = annotations[i+1]
	}
	return s
}

// exposedService is serviceWith that asks to be exposed.
func exposedService(name string, annotations ...string) *corev1.Service {
	return serviceWith(name, append(annotations, exposeAnnotation, "true")...)
}

// settings returns the ConfigMap that configures a namespace.
func settings(namespace, text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "exposecontroller"},
		Data:       map[string]string{"config.yml": text},
	}
}

// inExample is the option that most tests need.
var inExample = expose.Options{Config: expose.Config{Domain: "example.com"}}

func TestExposeIngress(t *testing.T) {
	e := newExposing(t, newCluster(t))
	e.start("one", inExample)
	web := exposedService("web")
	e.create(web)
	e.reached(web, "http://web.default.example.com")
	e.routed("web", map[string]string{"web.default.example.com/": "web"})
	e.annotate(web, exposeAnnotation, "")
	e.reached(web, "")
	planetest.WaitGone(t, e.p, ingressNamed("web"))
	if web := e.reached(web, ""); len(web.Annotations) > 0 {
		t.Errorf("left on the Service: %v", web.Annotations)
	}
}

// The whole life: create, converge, change, drift healed, a crash in the middle with fail-over to the standby, a restart,
// delete, nothing left.
func TestExposeScenario(t *testing.T) {
	inExposing(t, func(e *exposing) {
		config := settings("setpoint-system", "domain: example.com")
		e.create(config)
		crash := &switched{}
		stopFirst := e.start("first", expose.Options{}, crash.wrap, cutBefore(crash, http.MethodPatch, "/services/api"))
		e.awaitLeader("first")
		stopSecond := e.start("second", expose.Options{})

		web := exposedService("web")
		app := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "app", Annotations: map[string]string{"expose.service-key.config.fabric8.io/web": "URL"}},
			Data:       map[string]string{"OTHER": "mine"},
		}
		e.create(web, app)
		e.reached(web, "http://web.default.example.com")
		injected := func(want string) {
			e.Helper()
			planetest.Wait(e, e.p, app, func(cm *corev1.ConfigMap) bool { return cm.Data["URL"] == want && cm.Data["OTHER"] == "mine" })
		}
		injected("http://web.default.example.com")

		// A change of the Service, and what somebody else does to the Ingress.
		e.annotate(web, "fabric8.io/exposePort", "8080")
		planetest.Wait(e, e.p, ingressNamed("web"), func(i *networkingv1.Ingress) bool {
			return i.Spec.Rules[0].HTTP != nil && i.Spec.Rules[0].HTTP.Paths[0].Backend.Service.Port.Number == 8080
		})
		change(e, ingressNamed("web"), func(i *networkingv1.Ingress) {
			i.Annotations["users.own/annotation"] = "stays"
			i.Spec.Rules = []networkingv1.IngressRule{{Host: "elsewhere.example.com"}}
		})
		if i := e.routed("web", map[string]string{"web.default.example.com/": "web"}); i.Annotations["users.own/annotation"] != "stays" {
			e.Errorf("a user's annotation is gone: %v", i.Annotations)
		}

		// The first replica dies between the Ingress and the URL of the next Service; the standby goes on.
		api := exposedService("api")
		e.create(api)
		e.awaitLeader("second")
		e.reached(api, "http://api.default.example.com")
		stopFirst()

		// A restart, during which the configuration changes.
		stopSecond()
		change(e, config, func(cm *corev1.ConfigMap) { cm.Data["config.yml"] = "domain: example.org" })
		e.start("third", expose.Options{})
		e.reached(web, "http://web.default.example.org")
		e.reached(api, "http://api.default.example.org")
		injected("http://web.default.example.org")

		e.delete(web)
		e.delete(api)
		planetest.WaitGone(e, e.p, ingressNamed("web"))
		planetest.WaitGone(e, e.p, ingressNamed("api"))
		left := planetest.Wait(e, e.p, app, func(cm *corev1.ConfigMap) bool { return cm.Data["URL"] == "" })
		if diff := cmp.Diff(map[string]string{"OTHER": "mine"}, left.Data); diff != "" || len(left.Annotations) != 1 {
			e.Errorf("left in the ConfigMap: %v (-want +got):\n%s", left.Annotations, diff)
		}
	})
}

// cutBefore cuts a way to the server when the first request of a method to a path is about to be sent.
func cutBefore(way *switched, method, path string) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == method && strings.HasSuffix(r.URL.Path, path) {
				way.cut.Store(true)
			}
			return next.RoundTrip(r)
		})
	}
}

// Everything there is: also what is malformed, refused, or waits for something. The minute is a virtual one.
func TestExposeAtRestWritesNothing(t *testing.T) {
	inExposing(t, func(e *exposing) {
		sent := &requestLog{}
		e.create(settings("setpoint-system", "domain: example.com\nnode-ip: 192.0.2.1\nunknown: key"))
		e.create(&networkingv1.Ingress{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "taken"},
			Spec:       networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{Host: "users.example.com"}}},
		})
		e.create(
			exposedService("web", "expose.config.fabric8.io/config-yaml", `[{key: file, prefix: "url=", expression: url}]`),
			exposedService("shared", ingressName, "web", ingressPath, "/shared", "fabric8.io/ingress.annotations", "a.io/b: c\n"),
			exposedService("malformed", "fabric8.io/ingress.annotations", "nonsense", "fabric8.io/exposePort", "9"),
			exposedService("taken"),
			exposedService("port", "expose.setpoint.dev/exposer", "NodePort"),
			exposedService("route", "expose.setpoint.dev/exposer", "HTTPRoute", "expose.setpoint.dev/gateway", "public"),
			serviceWith("plain"),
			&corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Annotations: map[string]string{"expose.config.fabric8.io/url-key": "URL"}},
				Data:       map[string]string{"file": "a\nurl=x\nb"},
			},
		)
		e.start("one", expose.Options{}, sent.wrap)
		planetest.Wait(e, e.p, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}, func(cm *corev1.ConfigMap) bool {
			return cm.Data["URL"] == "http://web.default.example.com" && cm.Data["file"] == "a\nurl=http://web.default.example.com\nb"
		})
		e.told(serviceWith("route"), "HTTPRouteNotServed", "install the Gateway API")
		time.Sleep(10 * time.Minute) // what the start left to do is done by then, and the Events' series are over
		if !strings.Contains(strings.Join(sent.take(), "\n"), "PATCH /api/v1/namespaces/default/services/port") {
			e.Fatal("the log does not show what was written, so it proves nothing")
		}
		time.Sleep(time.Minute)
		for _, line := range sent.take() {
			if verb, path, _ := strings.Cut(line, " "); verb != "GET" && verb != "WATCH" && !strings.Contains(path, "/leases/") {
				e.Errorf("at rest: %s", line)
			}
		}
	})
}

func TestExposeHTTPRoute(t *testing.T) {
	inExposing(t, func(e *exposing) {
		e.start("one", expose.Options{Config: expose.Config{Domain: "example.com", Gateway: "infra/public"}})
		web, auto := exposedService("web", "expose.setpoint.dev/exposer", "HTTPRoute"), exposedService("auto")
		e.create(web, auto)
		e.reached(auto, "http://auto.default.example.com")
		e.told(web, "HTTPRouteNotServed", "install the Gateway API")

		// The kind arrives; nothing is restarted. What is automatic moves to it.
		planetest.Apply(e, e.p, "testdata/httproutes.yaml")
		e.reached(web, "http://web.default.example.com")
		planetest.WaitGone(e, e.p, ingressNamed("auto"))
		routed := func(name, host string) *unstructured.Unstructured {
			e.Helper()
			return planetest.Wait(e, e.p, routeNamed(name), func(r *unstructured.Unstructured) bool {
				hosts, _, _ := unstructured.NestedStringSlice(r.Object, "spec", "hostnames")
				parents, _, _ := unstructured.NestedSlice(r.Object, "spec", "parentRefs")
				return cmp.Equal([]string{host}, hosts) && len(parents) == 1 && parents[0].(map[string]any)["name"] == "public"
			})
		}
		routed("auto", "auto.default.example.com")
		route := routed("web", "web.default.example.com")

		change(e, route, func(r *unstructured.Unstructured) {
			if err := unstructured.SetNestedStringSlice(r.Object, []string{"elsewhere.example.com"}, "spec", "hostnames"); err != nil {
				e.Fatal(err)
			}
		})
		routed("web", "web.default.example.com")

		// What no Gateway accepts leads nowhere.
		route = routed("web", "web.default.example.com")
		refused := route.DeepCopy()
		refused.Object["status"] = map[string]any{"parents": []any{map[string]any{
			"parentRef": map[string]any{"name": "public"}, "conditions": []any{map[string]any{
				"type": "Accepted", "status": "False", "reason": "NotAllowedByListeners", "observedGeneration": route.GetGeneration(),
			}},
		}}}
		if err := e.user.Status().Patch(e.Context(), refused, client.MergeFrom(route)); err != nil {
			e.Fatal(err)
		}
		e.reached(web, "")
		e.told(web, "NotAccepted", "NotAllowedByListeners")

		e.annotate(web, exposeAnnotation, "")
		planetest.WaitGone(e, e.p, routeNamed("web"))
		e.reached(web, "")
		e.delete(auto)
		planetest.WaitGone(e, e.p, routeNamed("auto"))
	})
}

// An HTTPRoute that somebody else made is left alone, and its name is used once it is free.
func TestExposeHTTPRouteTaken(t *testing.T) {
	inExposing(t, func(e *exposing) {
		planetest.Apply(e, e.p, "testdata/httproutes.yaml")
		theirs := routeNamed("web")
		theirs.Object["spec"] = map[string]any{"hostnames": []any{"users.example.com"}}
		e.create(theirs)
		web := exposedService("web")
		e.create(web)
		e.start("one", expose.Options{Config: expose.Config{Exposer: "HTTPRoute", Domain: "example.com", Gateway: "public"}})
		e.told(web, "NameTaken", "delete it")
		if now := planetest.Wait(e, e.p, routeNamed("web"), exists); now.GetResourceVersion() != theirs.GetResourceVersion() {
			e.Errorf("it was written to: %v", now.Object)
		}
		e.delete(theirs)
		e.reached(web, "http://web.default.example.com")
	})
}

func routeNamed(name string) *unstructured.Unstructured {
	route := &unstructured.Unstructured{}
	route.SetAPIVersion("gateway.networking.k8s.io/v1")
	route.SetKind("HTTPRoute")
	route.SetNamespace("default")
	route.SetName(name)
	return route
}
