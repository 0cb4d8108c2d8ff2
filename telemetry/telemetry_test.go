package telemetry_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/setpoint-dev/setpoint/queue"
	"github.com/setpoint-dev/setpoint/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAddress(t *testing.T) {
	for in, want := range map[string]string{
		":8080":          "127.0.0.1:8080", // loopback unless told otherwise
		"0.0.0.0:8080":   "0.0.0.0:8080",
		"[::1]:0":        "[::1]:0",
		"localhost:9":    "localhost:9",
		"8080":           "",
		":http":          "",
		"127.0.0.1:":     "",
		"127.0.0.1:-1":   "",
		"127.0.0.1:9999": "127.0.0.1:9999",
		":99999":         "",
	} {
		got, err := telemetry.Address(in)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("Address(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
}

func TestIsLoopback(t *testing.T) {
	for addr, want := range map[string]bool{
		"": true, "127.0.0.1:1": true, "[::1]:1": true, "localhost:1": true,
		"0.0.0.0:1": false, "[::]:1": false, "example.com:1": false,
	} {
		if got := telemetry.IsLoopback(addr); got != want {
			t.Errorf("IsLoopback(%q) = %v", addr, got)
		}
	}
}

func TestChecks(t *testing.T) {
	checks := telemetry.NewChecks("readyz")
	checks.Add("good", func() (string, error) { return "", nil })
	checks.Add("busy", func() (string, error) { return "leading", nil })
	var bad error
	checks.Add("bad", func() (string, error) { return "", bad })
	mux := http.NewServeMux()
	mux.Handle("/readyz", checks)
	mux.Handle("/readyz/", checks)

	const all = "[+]good ok\n[+]busy ok: leading\n"
	for _, test := range []struct {
		path string
		bad  error
		code int
		body string
	}{
		{"/readyz", nil, 200, "ok"},
		{"/readyz?verbose", nil, 200, all + "[+]bad ok\nreadyz check passed\n"},
		{"/readyz", errors.New("broken"), 503, all + "[-]bad failed: broken\nreadyz check failed\n"},
		{"/readyz?exclude=bad", errors.New("broken"), 200, "ok"},
		{"/readyz?exclude=bad&exclude=good&verbose", errors.New("broken"), 200, "[+]busy ok: leading\nreadyz check passed\n"},
		{"/readyz/good", errors.New("broken"), 200, "ok"},
		{"/readyz/bad", errors.New("broken"), 503, "[-]bad failed: broken\nreadyz check failed\n"},
		{"/readyz/none", nil, 404, "no check \"none\"\n"},
	} {
		bad = test.bad
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, test.path, nil))
		if w.Code != test.code || w.Body.String() != test.body {
			t.Errorf("%s: %d %q, want %d %q", test.path, w.Code, w.Body, test.code, test.body)
		}
	}
}

// The metrics that users' dashboards query exist under their names and labels,
// also before anything happened.
func TestKnownNames(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	reconciles, err := telemetry.NewReconciles(reg)
	if err != nil {
		t.Fatal(err)
	}
	queues, err := telemetry.NewQueues(reg)
	if err != nil {
		t.Fatal(err)
	}
	requests, err := telemetry.NewRequests(reg)
	if err != nil {
		t.Fatal(err)
	}
	reconciles.Controller("foo")
	waited, worked := queues.Observers("foo")
	waited(queue.Fresh, time.Second)
	worked(time.Second)
	queues.Add("foo", func() queue.Stats {
		return queue.Stats{Ready: [queue.Classes]int{1, 2, 3, 4}, Adds: 5, Retries: 6, Unfinished: 7 * time.Second, Longest: 8 * time.Second}
	})
	req := httptest.NewRequest(http.MethodGet, "http://api/version", nil)
	if _, err := requests.Wrap(answers{err: errors.New("down")}).RoundTrip(req); err == nil {
		t.Error("the transport's error is lost")
	}
	if _, err := requests.Wrap(answers{code: 404}).RoundTrip(req); err != nil {
		t.Error(err)
	}

	want := `
controller_runtime_active_workers{controller="foo"} 0
controller_runtime_max_concurrent_reconciles{controller="foo"} 0
controller_runtime_reconcile_errors_total{controller="foo"} 0
controller_runtime_reconcile_panics_total{controller="foo"} 0
controller_runtime_reconcile_timeouts_total{controller="foo"} 0
controller_runtime_reconcile_total{controller="foo",result="error"} 0
controller_runtime_reconcile_total{controller="foo",result="requeue"} 0
controller_runtime_reconcile_total{controller="foo",result="requeue_after"} 0
controller_runtime_reconcile_total{controller="foo",result="success"} 0
controller_runtime_terminal_reconcile_errors_total{controller="foo"} 0
rest_client_requests_total{code="404",host="api",method="GET"} 1
rest_client_requests_total{code="<error>",host="api",method="GET"} 1
setpoint_controller_ready{controller="foo"} 0
setpoint_self_triggered_reconciles_total{controller="foo"} 0
setpoint_stuck_reconciles{controller="foo"} 0
workqueue_adds_total{controller="foo",name="foo"} 5
workqueue_depth{controller="foo",name="foo",priority="fresh"} 1
workqueue_depth{controller="foo",name="foo",priority="listed"} 4
workqueue_depth{controller="foo",name="foo",priority="planned"} 2
workqueue_depth{controller="foo",name="foo",priority="retry"} 3
workqueue_longest_running_processor_seconds{controller="foo",name="foo"} 8
workqueue_retries_total{controller="foo",name="foo"} 6
workqueue_unfinished_work_seconds{controller="foo",name="foo"} 7
`
	if got := plain(reg); got != strings.TrimPrefix(want, "\n") {
		t.Errorf("metrics:\n%swant:%s", got, want)
	}
	for name, n := range map[string]int{
		"controller_runtime_reconcile_time_seconds": 1,
		"workqueue_queue_duration_seconds":          1,
		"workqueue_work_duration_seconds":           1,
		"rest_client_request_duration_seconds":      1,
	} {
		if got, err := testutil.GatherAndCount(reg, name); err != nil || got != n {
			t.Errorf("%d series of %s (%v), want %d", got, name, err, n)
		}
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
}

// plain returns all metrics but histograms, as text.
func plain(reg *prometheus.Registry) string {
	w := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	var lines strings.Builder
	for line := range strings.Lines(w.Body.String()) {
		name, _, _ := strings.Cut(line, "{")
		if !strings.HasPrefix(line, "#") && !strings.HasSuffix(name, "_bucket") && !strings.HasSuffix(name, "_sum") && !strings.HasSuffix(name, "_count") {
			lines.WriteString(line)
		}
	}
	return lines.String()
}

// answers is a transport that answers always the same.
type answers struct {
	code int
	err  error
}

func (a answers) RoundTrip(*http.Request) (*http.Response, error) {
	if a.err != nil {
		return nil, a.err
	}
	return &http.Response{StatusCode: a.code, Body: http.NoBody}, nil
}

// pipes is a listener without a network.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error {
	close(p.closed)
	return nil
}

func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// The server serves until its context ends and then leaves nothing, even when a
// client holds on.
func TestServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		hang := make(chan struct{})
		mux := http.NewServeMux()
		mux.HandleFunc("/ok", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "fine") })
		mux.HandleFunc("/hang", func(http.ResponseWriter, *http.Request) { <-hang })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- telemetry.Serve(ctx, p, mux, slog.New(slog.DiscardHandler)) }()
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			p.conns <- theirs
			return ours, nil
		}}}
		resp, err := client.Get("http://pipe/ok")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || string(body) != "fine" {
			t.Errorf("body %q, %v", body, err)
		}
		held := make(chan error, 1)
		go func() {
			_, err := client.Get("http://pipe/hang")
			held <- err
		}()
		synctest.Wait()
		start := time.Now()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("stopping took %v, want the second that a request gets", took)
		}
		if err := <-held; err == nil {
			t.Error("the held request was answered")
		}
		close(hang)
	})
}
