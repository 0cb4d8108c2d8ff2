package test

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/operators/reload"
	"github.com/setpoint-dev/setpoint/plane"
	"github.com/setpoint-dev/setpoint/plane/planetest"
)

func newFlagSet(o *reload.Options) *flag.FlagSet {
	flags := flag.NewFlagSet("reload", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	o.AddFlags(flags)
	return flags
}

// countdown closes over when so many patches of Deployments have succeeded.
type countdown struct {
	mu   sync.Mutex
	left int
	over chan struct{}
}

func (c *countdown) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if err == nil && response.StatusCode == http.StatusOK && isPatchOf(r, "deployments", "") {
			c.mu.Lock()
			if c.left--; c.left == 0 {
				close(c.over)
			}
			c.mu.Unlock()
		}
		return response, err
	})
}

// Hundreds of ConfigMaps, and as many Deployments, each with a ConfigMap of its own and two with that of another: one change
// takes as many requests as it has users. SETPOINT_RELOAD_OBJECTS makes them more: `make conformance` has 5 000.
func TestReloadFault7OneChangeAmongThousands(t *testing.T) {
	const workers = 8
	count := 500
	if text := os.Getenv("SETPOINT_RELOAD_OBJECTS"); text != "" {
		var err error
		if count, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	p := planetest.Start(t, plane.Config{APIOnly: true})
	planetest.Apply(t, p, "../operators/reload/manifests/rbac.yaml") // for the namespace
	r := newReloads(t, p)
	begin := time.Now()
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := w; i < count; i += workers {
				name := fmt.Sprintf("web-%04d", i)
				annotations := []string{reload.Auto, "true"}
				if i == 1 || i == 2 {
					annotations = append(annotations, reload.ConfigMaps, "web-0000")
				}
				for _, obj := range []client.Object{configMap(name, "1"), web(name, annotations...)} {
					if err := r.user.Create(t.Context(), obj); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d ConfigMaps and as many Deployments were made in %v", count, time.Since(begin).Round(time.Millisecond))

	sent := &requestLog{}
	baselines := countdown{left: count, over: make(chan struct{})}
	begin = time.Now()
	r.start("only", reload.Options{}, sent.wrap, baselines.wrap)
	select {
	case <-baselines.over:
	case <-time.After(5 * time.Minute):
		t.Fatal("after five minutes some baselines are missing")
	}
	t.Logf("%d baselines were taken in %v", count, time.Since(begin).Round(time.Millisecond))
	sent.take()

	begin = time.Now()
	r.set("web-0000", "2")
	for i := range 3 {
		planetest.Wait(t, p, web(fmt.Sprintf("web-%04d", i)), func(d *appsv1.Deployment) bool {
			return d.Spec.Template.Annotations[reload.Stamp] != ""
		})
	}
	took := time.Since(begin)
	var asked []string
	for _, line := range sent.take() {
		ofOthers := strings.Contains(line, "/leases") || strings.Contains(line, "/events") || strings.HasPrefix(line, "WATCH ")
		looksForRollouts := line == "GET /api" || line == "GET /apis"
		if !ofOthers && !looksForRollouts {
			asked = append(asked, line)
		}
	}
	t.Logf("one change, three users: rolled after %v, of which %v are the window, with %d requests", took.Round(time.Millisecond), 500*time.Millisecond, len(asked))
	if len(asked) != 3 {
		t.Errorf("a change with three users took %d requests:\n%s", len(asked), strings.Join(asked, "\n"))
	}
}
