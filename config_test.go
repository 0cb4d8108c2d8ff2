package setpoint_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/internal/apitest"
	"github.com/setpoint-dev/setpoint/lease"
)

// wantAll checks that an error contains all texts.
func wantAll(t *testing.T, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", texts)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the error lacks %q:\n%v", text, err)
		}
	}
}

func TestNewManagerReturnsAllMistakes(t *testing.T) {
	_, err := setpoint.NewManager(setpoint.Config{
		REST:           apitest.New().REST(),
		MetricsAddress: "nowhere",
		HealthAddress:  "127.0.0.1:http",
		Concurrency:    -1,
		LeaderElection: &lease.Config{Namespace: "default", Duration: 5 * time.Second, RetryPeriod: time.Minute},
	})
	wantAll(t, err, "MetricsAddress", "HealthAddress", "invalid Concurrency -1",
		"RenewDeadline 10s must be less than Duration 5s", "RetryPeriod 1m0s must be more than zero and less than RenewDeadline")
}

// Without a REST config the cluster is found as kubectl finds it.
func TestClusterIsFoundByKubeconfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	kubeconfig := `{"apiVersion": "v1", "kind": "Config", "current-context": "here",
		"contexts": [{"name": "here", "context": {"cluster": "one", "user": "me"}}],
		"clusters": [{"name": "one", "cluster": {"server": "https://one.example.com"}}],
		"users": [{"name": "me", "user": {"token": "t"}}]}`
	if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", file)
	if _, err := setpoint.NewManager(setpoint.Config{}); err != nil {
		t.Error(err)
	}
	t.Setenv("KUBECONFIG", file+".missing")
	_, err := setpoint.NewManager(setpoint.Config{})
	wantAll(t, err, "no cluster found by kubeconfig or service account")
}

func TestRunReturnsAllMistakes(t *testing.T) {
	m, err := setpoint.NewManager(setpoint.Config{REST: apitest.New().REST()})
	if err != nil {
		t.Fatal(err)
	}
	nothing := func(context.Context, *corev1.ConfigMap) (setpoint.Result, error) { return setpoint.Result{}, nil }
	setpoint.For[*corev1.ConfigMap](m, "twice").Reconcile(nothing)
	setpoint.For[*corev1.ConfigMap](m, "twice").Reconcile(nothing)
	setpoint.For[*corev1.ConfigMap](m, "idle").Workers(0).Timeout(-1).RateLimit(0, 1).Reconcile(nil)
	setpoint.For[*unstructured.Unstructured](m, "kindless").
		Reconcile(func(context.Context, *unstructured.Unstructured) (setpoint.Result, error) {
			return setpoint.Result{}, nil
		})
	setpoint.For[client.Object](m, "interface").
		Reconcile(func(context.Context, client.Object) (setpoint.Result, error) { return setpoint.Result{}, nil })
	setpoint.For[*corev1.ConfigMap](m, "unknown").
		Owns(&stranger{}).Watches(&stranger{}, toConfigMap("a")).Watches(&corev1.Secret{}, nil).Reads(&stranger{}).
		Reconcile(nothing)
	setpoint.For[*corev1.ConfigMap](m, "").Reconcile(nothing)
	m.Add(setpoint.Runnable{Name: "empty"})
	err = m.Run(t.Context())
	wantAll(t, err,
		`controller "twice": the name is used twice`,
		`controller "idle": Workers(0)`, `controller "idle": Timeout(-1ns)`, `controller "idle": RateLimit(0, 1): both must be positive`, `controller "idle": the reconciler is nil`,
		`controller "kindless": For[*unstructured.Unstructured]`,
		`controller "interface": For[client.Object]: the type must be a pointer`,
		`controller "unknown": Owns(*setpoint_test.stranger)`, `controller "unknown": Watches(*setpoint_test.stranger)`,
		`controller "unknown": Watches(*v1.Secret): the function is nil`, `controller "unknown": Reads(*setpoint_test.stranger)`,
		`controller "": it has no name`,
		`runnable "empty": Name and Run must be set`)
}

func TestRunRunsOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, apitest.New())
		r.start()
		wantAll(t, r.m.Run(t.Context()), "Run was called before")
	})
}

// closer is a transport that has connections to close.
type closer struct {
	http.RoundTripper
	closed int
}

func (c *closer) CloseIdleConnections() { c.closed++ }

// No connection outlives Run.
func TestRunClosesIdleConnections(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New()
		transport := &closer{RoundTripper: server}
		r := newRig(t, server, func(c *setpoint.Config) { c.REST.Transport = transport })
		r.start()
		if err := r.end(); err != nil || transport.closed != 1 {
			t.Errorf("Run: %v, closed %d times, want 1", err, transport.closed)
		}
	})
}

func TestRegistryIsNotShared(t *testing.T) {
	m, err := setpoint.NewManager(setpoint.Config{REST: apitest.New().REST()})
	if err != nil {
		t.Fatal(err)
	}
	_, err = setpoint.NewManager(setpoint.Config{REST: apitest.New().REST(), Metrics: m.Metrics()})
	wantAll(t, err, "does another manager use the registry?")
}

// stranger is of a kind that no scheme knows.
type stranger struct{ corev1.ConfigMap }

func (s *stranger) DeepCopyObject() runtime.Object {
	return &stranger{*s.ConfigMap.DeepCopy()}
}
