package setpoint_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/internal/apitest"
)

// The debug page shows what runs, what waits, and why.
func TestDebugPage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps)
		for _, name := range []string{"failing", "running", "waiting"} {
			apitest.Put(server, configMap("default", name))
		}
		r := newRig(t, server)
		release := make(chan struct{})
		setpoint.For[*corev1.ConfigMap](r.m, "busy").
			Reconcile(func(_ context.Context, o *corev1.ConfigMap) (setpoint.Result, error) {
				switch o.Name {
				case "failing":
					return setpoint.Result{}, errors.New("no")
				case "running":
					<-release
				}
				return setpoint.Result{}, nil
			})
		setpoint.For[*corev1.Secret](r.m, "idle").
			Reconcile(func(context.Context, *corev1.Secret) (setpoint.Result, error) { return setpoint.Result{}, nil }).
			Pause()
		r.start()
		settle(time.Millisecond)
		code, body := r.get("/debug/controllers")
		var page struct {
			Leading     bool
			Controllers []struct {
				Name, Kind, Problem string
				Paused              bool
				Running, Waiting    []struct {
					Object, State, Class string
					Failures             int
					Causes               []string
				}
			}
		}
		if err := json.Unmarshal([]byte(body), &page); err != nil || code != 200 || len(page.Controllers) != 2 {
			t.Fatalf("%d %v: %s", code, err, body)
		}
		busy, idle := page.Controllers[0], page.Controllers[1]
		if !page.Leading || busy.Name != "busy" || busy.Kind != "ConfigMap" || busy.Problem != "" ||
			len(busy.Running) != 1 || busy.Running[0].Object != "default/running" ||
			!slices.Equal(busy.Running[0].Causes, []string{"For ConfigMap default/running added"}) {
			t.Errorf("page: %s", body)
		}
		waiting := map[string]string{}
		for _, w := range busy.Waiting {
			waiting[w.Object] = fmt.Sprint(w.State, " ", w.Class, " ", w.Failures)
		}
		if waiting["default/waiting"] != "ready listed 0" || waiting["default/failing"] != "delayed retry 1" {
			t.Errorf("waiting: %v", waiting)
		}
		if !idle.Paused || !strings.Contains(idle.Problem, "For Secret: waiting for the first listing") {
			t.Errorf("idle: %+v", idle)
		}
		close(release)
	})
}

// MetricsAccess guards metrics and debug pages, and nothing else.
func TestMetricsAccess(t *testing.T) {
	m, err := setpoint.NewManager(setpoint.Config{
		REST: apitest.New().REST(),
		MetricsAccess: func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "who are you?", http.StatusUnauthorized) })
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{
		"/metrics": 401, "/debug/controllers": 401, "/debug/": 401,
		"/healthz": 200, "/readyz": 200, "/readyz?verbose": 200, "/": 404,
	} {
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
}

// An idle manager asks for nothing but its watches and its lease.
func TestIdleIsQuiet(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps, apitest.Secrets, apitest.Leases)
		apitest.Put(server, configMap("default", "a"))
		r := newRig(t, server, elected("a"))
		ran := &calls{}
		r.counting(ran, setpoint.Result{})
		r.start()
		settle(time.Minute)
		server.Requests()
		settle(15 * time.Minute)
		for _, q := range server.Requests() {
			if q.Verb != "watch" && q.Resource != "leases" {
				t.Errorf("request while idle: %v", q)
			}
		}
		if n := ran.of("a"); n != 1 {
			t.Errorf("%d reconciles, want 1", n)
		}
	})
}

// A map function that fans out widely is measured and warned of.
func TestWideFanOutIsReported(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps, apitest.Secrets)
		r := newRig(t, server)
		setpoint.For[*corev1.ConfigMap](r.m, "wide").
			Watches(&corev1.Secret{}, func(_ context.Context, o client.Object) []setpoint.Request {
				requests := make([]setpoint.Request, len(o.GetName()))
				for i := range requests {
					requests[i] = setpoint.Request{Namespace: "default", Name: fmt.Sprint(i)}
				}
				return requests
			}).
			Reconcile(func(context.Context, *corev1.ConfigMap) (setpoint.Result, error) { return setpoint.Result{}, nil })
		r.start()
		apitest.Put(server, secret("few"))
		settle(time.Second)
		if strings.Contains(r.logs.String(), "very many reconciles") {
			t.Error("three requests are no wide fan-out")
		}
		apitest.Put(server, secret(strings.Repeat("x", 1000)))
		settle(time.Second)
		if !strings.Contains(r.logs.String(), "one change causes very many reconciles") {
			t.Errorf("no warning:\n%s", r.logs)
		}
		if got := r.metric(`setpoint_map_requests_sum`); got != `setpoint_map_requests_sum{controller="wide",kind="Secret"} 1003` {
			t.Error(got)
		}
	})
}
