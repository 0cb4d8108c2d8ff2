package setpoint_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/internal/apitest"
)

func TestMain(m *testing.M) {
	// client-go's handlers print errors, and space them by the time of the last one,
	// which they keep for the process: in a bubble they would sleep until the time of
	// another bubble.
	utilruntime.ErrorHandlers = nil
	goleak.VerifyTestMain(m)
}

// logs collects what is logged, as text.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// rig is a server, a manager for it and what it logs. It lives in a bubble.
type rig struct {
	*testing.T
	server *apitest.Server
	m      *setpoint.Manager
	logs   *logs
	stop   func()
	done   chan error
}

// newRig makes a rig for a server of these kinds. Options change the config.
func newRig(t *testing.T, server *apitest.Server, options ...func(*setpoint.Config)) *rig {
	t.Helper()
	r := &rig{T: t, server: server, logs: &logs{}, done: make(chan error, 1)}
	cfg := setpoint.Config{
		REST:       server.REST(),
		Logger:     slog.New(slog.NewTextHandler(r.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
		FieldOwner: "test",
		Seed:       1,
	}
	for _, option := range options {
		option(&cfg)
	}
	var err error
	if r.m, err = setpoint.NewManager(cfg); err != nil {
		t.Fatal(err)
	}
	return r
}

// start runs the manager until the test ends and waits until nothing moves.
func (r *rig) start() {
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	go func() { r.done <- r.m.Run(ctx) }()
	r.Cleanup(func() {
		if r.done != nil {
			if err := r.end(); err != nil {
				r.Errorf("Run: %v", err)
			}
		}
	})
	synctest.Wait()
}

// end stops the manager and returns what Run returned.
func (r *rig) end() error {
	r.Helper()
	r.stop()
	err := <-r.done
	r.done = nil
	return err
}

// bubble runs a test in virtual time. Whatever the test leaves running is an
// error.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

// settle lets virtual time pass and waits until nothing moves.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func configMap(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// calls counts reconciles by object.
type calls struct {
	mu sync.Mutex
	by map[string]int
}

func (c *calls) add(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = map[string]int{}
	}
	c.by[name]++
	return c.by[name]
}

func (c *calls) of(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.by[name]
}

// get reads a path of the manager's handler.
func (r *rig) get(path string) (int, string) {
	recorder := httptest.NewRecorder()
	r.m.Handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
	return recorder.Code, recorder.Body.String()
}

// getJSON reads a path of the manager's handler into v.
func (r *rig) getJSON(path string, v any) {
	r.Helper()
	if code, body := r.get(path); code != http.StatusOK {
		r.Fatalf("%s: %d %s", path, code, body)
	} else if err := json.Unmarshal([]byte(body), v); err != nil {
		r.Fatalf("%s: %v: %s", path, err, body)
	}
}

// debugging switches the debug endpoint on.
func debugging(cfg *setpoint.Config) { cfg.Debug = true }

// metric returns the lines of /metrics that begin with prefix.
func (r *rig) metric(prefix string) string {
	_, body := r.get("/metrics")
	var lines []string
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, prefix) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return strings.Join(lines, "\n")
}

func metadataOf(apiVersion, kind string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}}
}

// toConfigMap maps everything to one ConfigMap.
func toConfigMap(name string) func(context.Context, client.Object) []setpoint.Request {
	return func(context.Context, client.Object) []setpoint.Request {
		return []setpoint.Request{{Namespace: "default", Name: name}}
	}
}

func secret(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}
