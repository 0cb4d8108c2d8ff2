package test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/lease"
	"github.com/setpoint-dev/setpoint/operators/expose"
	"github.com/setpoint-dev/setpoint/plane/planetest"
)

// What the operator writes, as its README documents it.
const (
	urlAnnotation    = "expose.setpoint.dev/url"
	legacyURL        = "fabric8.io/exposeUrl"
	exposeAnnotation = "expose.setpoint.dev/expose"
)

// exposing is a cluster with a user, and the expose operator.
type exposing struct {
	t       *testing.T
	cluster planetest.Cluster
	user    *client.Client
}

func newExposing(t *testing.T) *exposing {
	t.Helper()
	e := &exposing{t: t, cluster: newCluster(t)}
	user, err := client.New(client.Config{REST: e.cluster.RESTConfig(), FieldOwner: "test"})
	if err != nil {
		t.Fatal(err)
	}
	e.user = user
	return e
}

// operator is a replica of the operator that runs.
type operator struct {
	sent *requestLog
	stop func()
}

// start runs a replica until it is stopped, or until the test ends.
func (e *exposing) start(o expose.Options) operator {
	e.t.Helper()
	sent := &requestLog{}
	config := e.cluster.RESTConfig()
	config.Wrap(sent.wrap)
	m, err := setpoint.NewManager(setpoint.Config{
		REST: config, FieldOwner: expose.FieldOwner,
		LeaderElection: &lease.Config{Name: expose.Name, Namespace: "default"},
	})
	if err != nil {
		e.t.Fatal(err)
	}
	if o.Namespace == "" {
		o.Namespace = "default"
	}
	if err := expose.Setup(m, o); err != nil {
		e.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	stopped := false
	stop := func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			e.t.Errorf("the operator ended with %v", err)
		}
	}
	e.t.Cleanup(stop)
	return operator{sent: sent, stop: stop}
}

// create makes objects.
func (e *exposing) create(objects ...client.Object) {
	e.t.Helper()
	for _, obj := range objects {
		if err := e.user.Create(e.t.Context(), obj); err != nil {
			e.t.Fatal(err)
		}
	}
}

// annotate sets an annotation of an object, or removes it when the value is empty.
func (e *exposing) annotate(obj client.Object, name, value string) {
	e.t.Helper()
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

// change changes an object at the server, whatever else has changed in it.
func change[T client.Object](e *exposing, obj T, mutate func(T)) {
	e.t.Helper()
	if err := e.user.Get(e.t.Context(), client.KeyOf(obj), obj, client.Live); err != nil {
		e.t.Fatal(err)
	}
	before := obj.DeepCopyObject().(client.Object)
	mutate(obj)
	if err := e.user.Patch(e.t.Context(), obj, client.MergeFrom(before)); err != nil {
		e.t.Fatal(err)
	}
}

// reached waits until the Service says that it is reached at url; an empty one means nowhere.
func (e *exposing) reached(service *corev1.Service, url string) *corev1.Service {
	e.t.Helper()
	return planetest.Wait(e.t, e.cluster, service, func(s *corev1.Service) bool {
		return s.Annotations[urlAnnotation] == url && s.Annotations[legacyURL] == url
	})
}

func newService(name string, annotations map[string]string, ports ...int32) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: annotations}}
	if len(ports) == 0 {
		ports = []int32{80}
	}
	for _, port := range ports {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "p" + string('a'+rune(len(s.Spec.Ports))), Port: port})
	}
	return s
}

func newIngress(name string) *networkingv1.Ingress {
	return &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

func TestExposeIngress(t *testing.T) {
	e := newExposing(t)
	e.start(expose.Options{Config: expose.Config{Domain: "example.com"}})
	service := newService("web", map[string]string{exposeAnnotation: "true"})
	e.create(service)
	e.reached(service, "http://web.default.example.com")
	planetest.Wait(t, e.cluster, newIngress("web"), func(i *networkingv1.Ingress) bool {
		return i.Spec.Rules[0].Host == "web.default.example.com" && i.Spec.Rules[0].HTTP.Paths[0].Backend.Service.Name == "web"
	})
	e.annotate(service, exposeAnnotation, "")
	e.reached(service, "")
	planetest.WaitGone(t, e.cluster, newIngress("web"))
}
