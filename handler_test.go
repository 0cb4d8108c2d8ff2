package setpoint_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/internal/apitest"
	"github.com/setpoint-dev/setpoint/telemetry"
	"github.com/setpoint-dev/setpoint/telemetry/debug"
)

// The debug page shows what runs, what waits, and why.
func TestDebugPage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps)
		for _, name := range []string{"failing", "running", "waiting"} {
			apitest.Put(server, configMap("default", name))
		}
		r := newRig(t, server, debugging)
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
		var page debug.Overview
		r.getJSON("/debug/setpoint", &page)
		if len(page.Controllers) != 2 || len(page.Controllers[0].Running) != 1 {
			t.Fatalf("page: %+v", page)
		}
		busy, idle := page.Controllers[0], page.Controllers[1]
		if !page.Leadership.Leading || page.Leadership.Mode != "none" || busy.Name != "busy" || busy.Kind != "ConfigMap" || busy.Problem != "" {
			t.Errorf("page: %+v", page)
		}
		running := busy.Running[0]
		if c := running.Causes[0]; running.Object != "default/running" || running.State != "running" || running.ReconcileID == "" ||
			c.Source != "For" || c.Kind != "ConfigMap" || c.Object != "default/running" || c.Verb != "added" {
			t.Errorf("running: %+v", running)
		}
		waiting := map[string]string{}
		for _, w := range busy.Waiting {
			waiting[w.Object] = fmt.Sprint(w.State, " ", w.Class, " ", w.Failures)
		}
		if waiting["default/waiting"] != "ready listed 0" || waiting["default/failing"] != "delayed retry 1" {
			t.Errorf("waiting: %v", waiting)
		}
		if w := busy.Watches[0]; w.Source != "For" || w.Kind != "ConfigMap" || !w.Synced || w.Error != "" {
			t.Errorf("watch: %+v", w)
		}
		if !idle.Paused || !strings.Contains(idle.Problem, "For Secret: waiting for the first listing") ||
			idle.Watches[0].Synced || !strings.Contains(idle.Watches[0].Error, "no matches for kind") {
			t.Errorf("idle: %+v", idle)
		}
		if len(page.Cache) != 2 || page.Cache[0].Kind != "ConfigMap" || page.Cache[0].Objects != 3 || page.Cache[0].Bytes == 0 || page.Cache[1].Error == "" {
			t.Errorf("cache: %+v", page.Cache)
		}
		req := httptest.NewRequest(http.MethodGet, "/debug/setpoint", nil)
		req.Header.Set("Accept", "text/html,*/*")
		w := httptest.NewRecorder()
		r.m.Handler().ServeHTTP(w, req)
		for _, text := range []string{"<h2>busy (ConfigMap)</h2>", "<td>default/failing</td><td>delayed retry</td>", "For ConfigMap default/running added", "<td>Secret</td>"} {
			if !strings.Contains(w.Body.String(), text) {
				t.Errorf("the page has no %q:\n%s", text, w.Body)
			}
		}
		close(release)
	})
}

// The debug endpoint is off unless asked for, and guarded as metrics are; health
// is for everyone.
func TestMetricsAccess(t *testing.T) {
	for _, test := range []struct {
		debug         bool
		access        telemetry.Access
		address       string
		metrics, page int
	}{
		{false, telemetry.GuardRemote, "", 200, 404},
		{true, telemetry.GuardRemote, "", 200, 200},
		{true, telemetry.GuardRemote, "127.0.0.1:8080", 200, 200},
		{true, telemetry.GuardRemote, "0.0.0.0:8080", 401, 401},
		{false, telemetry.GuardRemote, "0.0.0.0:8080", 401, 401},
		{true, telemetry.GuardAll, "", 401, 401},
		{true, telemetry.GuardNone, "0.0.0.0:8080", 200, 200},
	} {
		m, err := setpoint.NewManager(setpoint.Config{
			REST: apitest.New().REST(), Debug: test.debug, MetricsAccess: test.access, MetricsAddress: test.address,
		})
		if err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]int{
			"/metrics": test.metrics, debug.PathOverview: test.page, debug.PathRoles: test.page,
			debug.PathObject + "?kind=Foo&name=a": test.page,
			"/healthz":                            200, "/readyz": 200, "/readyz?verbose": 200, "/": 404,
		} {
			w := httptest.NewRecorder()
			m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			if w.Code != want {
				t.Errorf("%+v: %s: %d, want %d", test, path, w.Code, want)
			}
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

// A runnable's check is one of the manager's. One that runs where another replica
// leads is not asked.
func TestRunnableCheck(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps, apitest.Leases)
		var problem error
		replica := func(name string) *rig {
			r := newRig(t, server, elected(name))
			until := func(ctx context.Context) error {
				<-ctx.Done()
				return nil
			}
			check := func() (string, error) { return "valid for 30 days", problem }
			r.m.Add(setpoint.Runnable{Name: "everywhere", Run: until, Standby: true, Check: check})
			r.m.Add(setpoint.Runnable{Name: "leading", Run: until, Check: check})
			r.start()
			settle(time.Minute)
			return r
		}
		leader, standby := replica("leader"), replica("standby")
		for _, test := range []struct {
			problem error
			of      *rig
			code    int
			want    string
		}{
			{nil, leader, 200, "[+]everywhere ok: valid for 30 days\n[+]leading ok: valid for 30 days\n"},
			{nil, standby, 200, "[+]everywhere ok: valid for 30 days\n[+]leading ok: runs where another replica leads\n"},
			{errors.New("no certificate"), leader, 503, "[-]everywhere failed: no certificate\n[-]leading failed: no certificate\n"},
			{errors.New("no certificate"), standby, 503, "[-]everywhere failed: no certificate\n[+]leading ok: runs where another replica leads\n"},
		} {
			problem = test.problem
			if code, body := test.of.get("/readyz?verbose"); code != test.code || !strings.Contains(body, test.want) {
				t.Errorf("with the problem %v: %d %s, want %s", test.problem, code, body, test.want)
			}
		}
	})
}
