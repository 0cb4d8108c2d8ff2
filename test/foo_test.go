package test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/lease"
	"github.com/setpoint-dev/setpoint/operators/foo"
	"github.com/setpoint-dev/setpoint/operators/foo/v1alpha1"
	"github.com/setpoint-dev/setpoint/plane/planetest"
)

// requestLog notes the requests that pass it, in the order in which they were sent.
type requestLog struct {
	mu    sync.Mutex
	lines []string
}

func (l *requestLog) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		verb := r.Method
		if r.URL.Query().Get("watch") != "" {
			verb = "WATCH"
		}
		l.mu.Lock()
		l.lines = append(l.lines, verb+" "+r.URL.Path)
		l.mu.Unlock()
		return next.RoundTrip(r)
	})
}

// take returns what was noted since the last call.
func (l *requestLog) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.lines
	l.lines = nil
	return lines
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// fooScheme knows the built-in kinds and Foo.
func fooScheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, foo.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

// startFoo runs the Foo operator, which leads by a lease, against p until the test ends.
func startFoo(t *testing.T, p planetest.Cluster) (*client.Client, *requestLog) {
	t.Helper()
	scheme := fooScheme(t)
	planetest.Apply(t, p, "../operators/foo/manifests/sample.setpoint.dev_foos.yaml")
	sent := &requestLog{}
	config := p.RESTConfig()
	config.Wrap(sent.wrap)
	m, err := setpoint.NewManager(setpoint.Config{
		REST: config, Scheme: scheme, FieldOwner: foo.Name, Seed: 1,
		LeaderElection: &lease.Config{Name: foo.Name, Namespace: "default"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := foo.Setup(m); err != nil {
		t.Fatal(err)
	}
	begin(t, m)
	user, err := client.New(client.Config{REST: p.RESTConfig(), Scheme: scheme, FieldOwner: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return user, sent
}

func newFoo(name string, replicas int32) *v1alpha1.Foo {
	return &v1alpha1.Foo{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Foo"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       v1alpha1.FooSpec{Replicas: &replicas},
	}
}

// available reports whether a Foo runs what its present spec asks for.
func available(f *v1alpha1.Foo) bool {
	return f.Status.ObservedGeneration == f.Generation && f.Status.AvailableReplicas == *f.Spec.Replicas
}

func TestHundredFoos(t *testing.T) {
	p := newCluster(t)
	user, _ := startFoo(t, p)
	var foos []*v1alpha1.Foo
	for i := range 100 {
		f := newFoo(fmt.Sprintf("foo-%03d", i), 2)
		if err := user.Create(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		foos = append(foos, f)
	}
	for _, f := range foos {
		planetest.Wait(t, p, f, available)
	}
	if err := user.DeleteAllOf(t.Context(), &v1alpha1.Foo{}, client.InNamespace("default")); err != nil {
		t.Fatal(err)
	}
	for _, f := range foos {
		planetest.WaitGone(t, p, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: f.Name}})
	}
}

// The minute is a virtual one: plane and operator run in one bubble.
func TestIdleFooAsksForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := planetest.New(t)
		user, sent := startFoo(t, p)
		f := newFoo("quiet", 2)
		if err := user.Create(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		planetest.Wait(t, p, f, available)
		time.Sleep(time.Minute) // what the start left to do is done by then
		if busy := sent.take(); !strings.Contains(strings.Join(busy, "\n"), "/deployments") {
			t.Fatalf("the log does not show how the Deployment was made, so it proves nothing:\n%s", strings.Join(busy, "\n"))
		}

		time.Sleep(time.Minute)
		renewals := 0
		for _, line := range sent.take() {
			switch {
			case strings.Contains(line, "/leases/"):
				renewals++
			case strings.HasPrefix(line, "WATCH "):
			default:
				t.Errorf("an idle operator asked for %s", line)
			}
		}
		t.Logf("an idle minute: %d requests for the lease", renewals)
		if renewals == 0 {
			t.Error("the lease was not renewed: the operator does not run")
		}
	})
}
