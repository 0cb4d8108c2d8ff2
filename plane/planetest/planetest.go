package planetest

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/setpoint-dev/setpoint/plane"
	"github.com/setpoint-dev/setpoint/plane/manifest"
)

// FieldManager owns the fields that Apply applies.
const FieldManager = "planetest"

// New starts a plane for the duration of the test, with all controllers and one
// node, reached from inside of the process only.
func New(t testing.TB) *plane.Plane {
	t.Helper()
	return Start(t, plane.Config{})
}

// Start is New with a configuration. A Logger in it is used instead of the test's.
func Start(t testing.TB, config plane.Config) *plane.Plane {
	t.Helper()
	quiet()
	log := &log{}
	if config.Logger == nil {
		config.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelInfo}))
	}
	p, err := plane.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		text := log.text() // of the stop itself nobody wants to read
		p.Stop()
		if t.Failed() && text != "" {
			t.Logf("the plane logged:\n%s", text)
		}
	})
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p
}

// quiet silences klog, through which Kubernetes' code says some 300 lines whenever a
// server starts. klog is global to the process; a test that wants to hear it sets its
// logger again after the first plane.
var quiet = sync.OnceFunc(func() { klog.SetLogger(logr.Discard()) })

// Apply applies manifest files, or the manifest files in directories, and waits
// until the kinds they define are served. See package manifest.
func Apply(t testing.TB, c Cluster, paths ...string) {
	t.Helper()
	objects, err := manifest.Read(paths...)
	if err != nil {
		t.Fatal(err)
	}
	applier, err := manifest.NewApplier(c.RESTConfig(), FieldManager)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), Timeout)
	defer cancel()
	if err := applier.Apply(ctx, objects...); err != nil {
		t.Fatal(err)
	}
}
