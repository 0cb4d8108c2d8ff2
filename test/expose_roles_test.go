package test

import (
	"io"
	"net/http"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/operators/expose"
	"github.com/setpoint-dev/setpoint/plane"
	"github.com/setpoint-dev/setpoint/plane/planetest"
)

// watchesLate delivers what watches bring only after a while, so that a client that has written meanwhile has to look at the
// server.
func watchesLate(lag time.Duration) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(r)
			if err == nil && r.URL.Query().Get("watch") != "" {
				response.Body = newLate(response.Body, lag)
			}
			return response, err
		})
	}
}

// late is a stream whose content arrives a while after it was sent.
type late struct {
	*io.PipeReader
	source io.Closer
}

func newLate(source io.ReadCloser, lag time.Duration) late {
	type piece struct {
		data []byte
		err  error
		due  time.Time
	}
	out, in := io.Pipe()
	pieces := make(chan piece, 10_000)
	go func() {
		defer close(pieces)
		for {
			buffer := make([]byte, 32<<10)
			n, err := source.Read(buffer)
			pieces <- piece{buffer[:n], err, time.Now().Add(lag)}
			if err != nil {
				return
			}
		}
	}()
	go func() {
		for p := range pieces {
			time.Sleep(time.Until(p.due))
			if _, err := in.Write(p.data); err != nil {
				source.Close()
				continue // nobody reads any more; the rest is let go
			}
			if p.err != nil {
				in.CloseWithError(p.err)
			}
		}
	}()
	return late{out, source}
}

func (l late) Close() error {
	l.PipeReader.Close()
	return l.source.Close()
}

// The operator may do what it has to, and no more; also when its cache is behind.
func TestExposeRole(t *testing.T) {
	eachRuleNeeded(t, plane.Config{}, expose.RBAC(), func(t testing.TB, p planetest.Cluster, operator *rest.Config) {
		e := exposingIn(t, p)
		planetest.Apply(t, p, "testdata/httproutes.yaml")
		operator.Wrap(watchesLate(3 * time.Second))
		stop := begin(t, e.manager("one", operator, expose.Options{Config: expose.Config{Domain: "example.com", Gateway: "public", Exposer: "Ingress"}}))
		web := exposedService("web")
		route, port := exposedService("route", "expose.setpoint.dev/exposer", "HTTPRoute"), exposedService("port", "expose.setpoint.dev/exposer", "NodePort")
		app := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "app", Annotations: map[string]string{
			"expose.setpoint.dev/inject": "URL: web",
		}}}
		e.create(web, route, port, app)
		e.reached(web, "http://web.default.example.com")
		e.reached(route, "http://route.default.example.com")
		planetest.Wait(t, p, port, func(s *corev1.Service) bool { return s.Annotations[urlAnnotation] != "" })
		planetest.Wait(t, p, app, func(cm *corev1.ConfigMap) bool { return cm.Data["URL"] == "http://web.default.example.com" })
		e.told(web, "Exposed", "reached at")
		change(e, ingressNamed("web"), func(i *networkingv1.Ingress) { i.Spec.Rules[0].Host = "elsewhere.example.com" })
		e.routed("web", map[string]string{"web.default.example.com/": "web"})
		for i := range 5 { // faster than the cache follows
			e.annotate(web, "fabric8.io/host.name", "web-"+strconv.Itoa(i))
			e.annotate(route, "fabric8.io/host.name", "route-"+strconv.Itoa(i))
			e.annotate(app, "expose.setpoint.dev/inject", "URL: web\nHOST_"+strconv.Itoa(i)+": web host")
			time.Sleep(time.Second)
		}
		e.annotate(web, "fabric8.io/host.name", "")
		e.reached(web, "http://web.default.example.com")
		// What is found again is told as a series.
		e.annotate(web, "fabric8.io/exposePort", "none")
		e.told(web, "UnknownPort", "none")
		e.annotate(web, "expose.setpoint.dev/ingress-class", "nginx")
		awaitEvent(t, p, func(event *eventsv1.Event) bool { return event.Reason == "UnknownPort" && event.Series != nil })
		for _, s := range []*corev1.Service{web, route, port} {
			e.annotate(s, exposeAnnotation, "")
			e.reached(s, "")
		}
		planetest.WaitGone(t, p, ingressNamed("web"))
		planetest.WaitGone(t, p, routeNamed("route"))
		stop()
	})
}
