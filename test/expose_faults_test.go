package test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/operators/expose"
	"github.com/setpoint-dev/setpoint/plane/planetest"
)

// The tests of this file are about faults of exposecontroller that take a cluster to show, by their numbers. The others are
// in operators/expose/fault_test.go. They run in virtual time.

// A crash between the two writes left the Service without its URL for ever, since the path was there and was not looked at
// again.
func TestExposeFault02CrashBetweenIngressAndURL(t *testing.T) {
	inExposing(t, func(e *exposing) {
		way := &switched{}
		stop := e.start("first", inExample, way.wrap, cutBefore(way, http.MethodPatch, "/services/web"))
		web := exposedService("web")
		e.create(web)
		e.routed("web", map[string]string{"web.default.example.com/": "web"})
		stop()
		e.reached(web, "") // it was too late
		e.start("second", inExample)
		e.reached(web, "http://web.default.example.com")
	})
}

// The Ingress of a renamed Service was orphaned, and whatever had the Service's own name was deleted.
func TestExposeFault03RemovalHeedsTheNameAndTheOwner(t *testing.T) {
	inExposing(t, func(e *exposing) {
		users := ingressNamed("web")
		users.Spec.Rules = []networkingv1.IngressRule{{Host: "users.example.com"}}
		e.create(users)
		e.start("one", inExample)
		web := exposedService("web", ingressName, "front")
		e.create(web)
		e.reached(web, "http://front.default.example.com")
		e.annotate(web, exposeAnnotation, "")
		planetest.WaitGone(e, e.p, ingressNamed("front"))
		e.reached(web, "")
		if now := planetest.Wait(e, e.p, users, exists); now.UID != users.UID || now.ResourceVersion != users.ResourceVersion {
			e.Errorf("the user's Ingress was written to: %+v", now)
		}

		// A change of the name moves the Ingress, and a name that is taken is refused until it is free.
		e.annotate(web, exposeAnnotation, "true")
		e.routed("front", map[string]string{"front.default.example.com/": "web"})
		e.annotate(web, ingressName, "web")
		e.told(web, "NameTaken", "delete it")
		planetest.WaitGone(e, e.p, ingressNamed("front"))
		e.reached(web, "")
		if now := planetest.Wait(e, e.p, users, exists); now.ResourceVersion != users.ResourceVersion {
			e.Errorf("the user's Ingress was written to: %+v", now)
		}
		e.delete(users)
		e.reached(web, "http://web.default.example.com")
	})
}

// A name that is taken between the look and the write is not touched either.
func TestExposeRaceForAName(t *testing.T) {
	inExposing(t, func(e *exposing) {
		users := ingressNamed("web")
		users.Spec.Rules = []networkingv1.IngressRule{{Host: "users.example.com"}}
		var once sync.Once
		e.start("one", inExample, func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/ingresses") {
					once.Do(func() { e.create(users) })
				}
				return next.RoundTrip(r)
			})
		})
		web := exposedService("web")
		e.create(web)
		e.told(web, "NameTaken", "delete it")
		if now := planetest.Wait(e, e.p, users, exists); now.ResourceVersion != users.ResourceVersion {
			e.Errorf("the user's Ingress was written to: %+v", now)
		}
		e.delete(users)
		e.reached(web, "http://web.default.example.com")
	})
}

// Deletions were ignored, so that a shared Ingress kept a dead path.
func TestExposeFault04DeletedServiceLeavesASharedIngress(t *testing.T) {
	inExposing(t, func(e *exposing) {
		e.start("one", inExample)
		web, api := exposedService("web"), exposedService("api", ingressName, "web", ingressPath, "/api")
		e.create(web, api)
		e.reached(web, "http://web.default.example.com")
		e.reached(api, "http://web.default.example.com")
		e.routed("web", map[string]string{"web.default.example.com/": "web", "web.default.example.com/api": "api"})
		e.delete(api)
		left := e.routed("web", map[string]string{"web.default.example.com/": "web"})
		left = planetest.Wait(e, e.p, left, func(i *networkingv1.Ingress) bool { return len(i.OwnerReferences) == 1 })
		if left.OwnerReferences[0].UID != web.UID {
			e.Errorf("it belongs to %+v", left.OwnerReferences)
		}
		e.delete(web)
		planetest.WaitGone(e, e.p, ingressNamed("web"))
	})
}

// An error was logged, and that was all until the next resync.
func TestExposeFault08ErrorsAreTriedAgain(t *testing.T) {
	inExposing(t, func(e *exposing) {
		var failures atomic.Int32
		e.start("one", inExample, func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				write := r.Method != http.MethodGet && !strings.Contains(r.URL.Path, "/leases")
				if write && failures.Add(1) <= 5 {
					body := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","code":500}`
					return &http.Response{
						StatusCode: http.StatusInternalServerError, Request: r, Header: http.Header{"Content-Type": {"application/json"}},
						Body: io.NopCloser(strings.NewReader(body)),
					}, nil
				}
				return next.RoundTrip(r)
			})
		})
		web := exposedService("web")
		e.create(web)
		e.reached(web, "http://web.default.example.com")
		if failures.Load() <= 5 {
			e.Error("nothing has failed, so it proves nothing")
		}
	})
}

// The value was that of before the last change, and a ConfigMap without data was a panic.
func TestExposeFault09InjectionDoesNotLag(t *testing.T) {
	inExposing(t, func(e *exposing) {
		e.start("one", inExample)
		own := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Annotations: map[string]string{
			"expose.config.fabric8.io/url-key": "URL", "expose.config.fabric8.io/clusterip-key": "IP",
		}}}
		web := exposedService("web")
		e.create(own, web)
		holds := func(url string) {
			e.Helper()
			planetest.Wait(e, e.p, own, func(cm *corev1.ConfigMap) bool { return cm.Data["URL"] == url && cm.Data["IP"] == web.Spec.ClusterIP })
		}
		holds("http://web.default.example.com")
		e.annotate(web, "fabric8.io/host.name", "www")
		holds("http://www.default.example.com")
		e.annotate(web, "fabric8.io/host.name", "shop")
		holds("http://shop.default.example.com")
	})
}

// The branch that removes looked for the annotation on the Service as it is now, where it is gone.
func TestExposeFault13RemovingInjectAloneRemoves(t *testing.T) {
	inExposing(t, func(e *exposing) {
		e.start("one", inExample)
		web := serviceWith("web", "fabric8.io/inject", "true")
		e.create(web)
		e.reached(web, "http://web.default.example.com")
		e.annotate(web, "fabric8.io/inject", "")
		e.reached(web, "")
		planetest.WaitGone(e, e.p, ingressNamed("web"))
	})
}

// A change that is missed, because no replica runs, is not different from one that is seen.
func TestExposeMissesNothingWhileStopped(t *testing.T) {
	inExposing(t, func(e *exposing) {
		stop := e.start("first", inExample)
		gone, withdrawn, moved := exposedService("gone"), exposedService("withdrawn"), exposedService("moved")
		port := exposedService("port", "expose.setpoint.dev/exposer", "LoadBalancer")
		e.create(gone, withdrawn, moved, port)
		for _, s := range []*corev1.Service{gone, withdrawn, moved} {
			e.reached(s, "http://"+s.Name+".default.example.com")
		}
		planetest.Wait(e, e.p, port, func(s *corev1.Service) bool { return s.Spec.Type == corev1.ServiceTypeLoadBalancer })
		stop()
		e.delete(gone)
		e.annotate(withdrawn, exposeAnnotation, "")
		e.annotate(port, exposeAnnotation, "")
		e.annotate(moved, ingressName, "front")
		e.start("second", expose.Options{Config: inExample.Config})
		e.reached(moved, "http://front.default.example.com")
		e.reached(withdrawn, "")
		planetest.Wait(e, e.p, port, func(s *corev1.Service) bool { return s.Spec.Type == corev1.ServiceTypeClusterIP })
		for _, s := range []*corev1.Service{gone, withdrawn, moved} {
			planetest.WaitGone(e, e.p, ingressNamed(s.Name))
		}
	})
}

// Who takes the mark away takes the object over, also when the operator has yet to see that.
func TestExposeTakeOverIsHeededByAStaleCache(t *testing.T) {
	inExposing(t, func(e *exposing) {
		planetest.Apply(e, e.p, "testdata/httproutes.yaml")
		ingresses, routes := heldBack{resource: "ingresses"}, heldBack{resource: "httproutes"}
		e.start("one", inExample, ingresses.wrap, routes.wrap)
		gone, changed := exposedService("gone"), exposedService("changed")
		byRoute := exposedService("route", "expose.setpoint.dev/exposer", "HTTPRoute", "expose.setpoint.dev/gateway", "public")
		e.create(gone, changed, byRoute)
		e.reached(gone, "http://gone.default.example.com")
		e.reached(changed, "http://changed.default.example.com")
		e.reached(byRoute, "http://route.default.example.com")
		time.Sleep(time.Minute)
		ingresses.close()
		routes.close()
		theirs := []client.Object{ingressNamed("gone"), ingressNamed("changed"), routeNamed("route")}
		for _, obj := range theirs {
			e.annotate(obj, "expose.setpoint.dev/made-for", "")
		}
		e.annotate(gone, exposeAnnotation, "")
		e.annotate(byRoute, exposeAnnotation, "")
		e.annotate(changed, "fabric8.io/exposePort", "8080")
		time.Sleep(time.Minute)
		ingresses.open()
		routes.open()
		time.Sleep(time.Minute)
		for _, obj := range theirs {
			if now := planetest.Wait(e, e.p, obj, exists); now.GetResourceVersion() != obj.GetResourceVersion() {
				e.Errorf("%s was written to: %v", obj.GetName(), now)
			}
		}
		e.reached(gone, "")
		e.reached(byRoute, "")
		e.told(changed, "NameTaken", "delete it")
	})
}

// What the server would refuse of one Service holds up no other that shares its Ingress.
func TestExposeMalformedServiceHoldsUpNoOther(t *testing.T) {
	inExposing(t, func(e *exposing) {
		bad := []*corev1.Service{
			exposedService("a", ingressName, "web", "expose.setpoint.dev/path", "/a/.."),
			exposedService("b", ingressName, "web", ingressPath, "/b", "expose.setpoint.dev/tls-secret", "no name"),
			exposedService("c", ingressName, "web", ingressPath, "/c", "expose.setpoint.dev/ingress-class", "no name"),
		}
		for _, s := range bad {
			e.create(s)
		}
		web := exposedService("web")
		e.create(web)
		e.start("one", inExample)
		e.reached(web, "http://web.default.example.com")
		for _, s := range bad {
			e.told(s, "InvalidAnnotation", "stays as it is")
		}
	})
}
