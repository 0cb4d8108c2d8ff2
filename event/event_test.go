package event_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	eventsclient "k8s.io/client-go/kubernetes/typed/events/v1"

	"github.com/setpoint-dev/setpoint/event"
	"github.com/setpoint-dev/setpoint/internal/apitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a sink that runs against a server.
type rig struct {
	*event.Recorder
	t       *testing.T
	server  *apitest.Server
	metrics *prometheus.Registry
	logs    bytes.Buffer
	cancel  context.CancelFunc
	done    chan struct{}
}

func bubble(t *testing.T, test func(*testing.T, *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, server: apitest.New(apitest.Events), metrics: prometheus.NewRegistry(), done: make(chan struct{})}
		client, err := eventsclient.NewForConfig(r.server.REST())
		if err != nil {
			t.Fatal(err)
		}
		sink, err := event.NewSink(event.Config{
			Client: client, Scheme: clientgoscheme.Scheme, Instance: "pod-1",
			Random: rand.New(rand.NewPCG(1, 2)).Uint64, Logger: slog.New(slog.NewTextHandler(&r.logs, nil)), Metrics: r.metrics,
		})
		if err != nil {
			t.Fatal(err)
		}
		r.Recorder = sink.Recorder("foo")
		ctx, cancel := context.WithCancel(context.Background())
		r.cancel = cancel
		go func() {
			defer close(r.done)
			if err := sink.Run(ctx); err != nil {
				t.Error(err)
			}
		}()
		test(t, r)
		r.stop()
	})
}

func (r *rig) stop() {
	r.cancel()
	<-r.done
}

// settle lets virtual time pass and waits until nothing moves.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// sent returns the requests sent since it was last called.
func (r *rig) sent() []apitest.Request {
	synctest.Wait()
	return r.server.Requests()
}

// only returns the one Event that there is.
func (r *rig) only() eventsv1.Event {
	r.t.Helper()
	synctest.Wait()
	events := r.server.Events()
	if len(events) != 1 {
		r.t.Fatalf("%d events, want 1", len(events))
	}
	return events[0]
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "uid-of-x"}}
}

func TestEvent(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.Eventf(pod("p"), event.Warning, "Full", "Place", "no room for %d", 3)
		e := r.only()
		want := corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "ns", Name: "p", UID: "uid-of-x"}
		if e.Namespace != "ns" || !strings.HasPrefix(e.Name, "p.") || e.Regarding != want || e.Type != "Warning" ||
			e.Reason != "Full" || e.Action != "Place" || e.Note != "no room for 3" || e.ReportingController != "foo" ||
			e.ReportingInstance != "pod-1" || !e.EventTime.Time.Equal(time.Now()) || e.Series != nil {
			t.Errorf("event %+v", e)
		}
	})
}

// Events about cluster-scoped objects go to the namespace that the server wants
// them in.
func TestClusterScopedObject(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.Eventf(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, event.Normal, "Seen", "See", "seen")
		if e := r.only(); e.Namespace != "default" || e.Regarding.Namespace != "" || e.Regarding.Kind != "Node" {
			t.Errorf("event %+v", e)
		}
	})
}

// What repeats is one Event whose count grows, told at most every ten seconds.
func TestSeries(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for range 60 {
			r.Eventf(pod("p"), event.Normal, "Tick", "Tick", "tick")
			settle(time.Second)
		}
		settle(10 * time.Second)
		e := r.only()
		if e.Series == nil || e.Series.Count != 60 {
			t.Errorf("series %+v, want a count of 60", e.Series)
		}
		if n := len(r.sent()); n > 8 {
			t.Errorf("%d requests for 60 events in a minute, want one in ten seconds", n)
		}
		// After a pause it is another Event.
		settle(time.Hour)
		r.Eventf(pod("p"), event.Normal, "Tick", "Tick", "tick")
		synctest.Wait()
		if n := r.server.Count(apitest.Events); n != 2 {
			t.Errorf("%d events, want 2", n)
		}
	})
}

// A series whose Event the server has dropped goes on in a new one.
func TestSeriesOutlivesItsEvent(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.Eventf(pod("p"), event.Normal, "Tick", "Tick", "tick")
		e := r.only()
		r.server.Delete(&e)
		r.Eventf(pod("p"), event.Normal, "Tick", "Tick", "tick")
		settle(time.Minute)
		if e := r.only(); e.Series == nil || e.Series.Count != 2 {
			t.Errorf("series %+v, want a count of 2", e.Series)
		}
	})
}

// Events of one moment have different names, also where time stands still and
// where another process has used the same names before.
func TestNamesDoNotCollide(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		taken := &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}}
		first := rand.New(rand.NewPCG(1, 2)).Uint64()
		taken.Name = fmt.Sprintf("p.%x", first|1<<63)
		apitest.Put(r.server, taken)
		for i := range 20 {
			r.Eventf(pod("p"), event.Normal, "Reason", "Action", "note %d", i)
		}
		settle(time.Minute)
		if n := r.server.Count(apitest.Events); n != 21 {
			t.Errorf("%d events, want 21\n%s", n, r.logs.String())
		}
	})
}

// The events of one object are limited; those of others do not suffer.
func TestRateByObject(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for i := range 100 {
			r.Eventf(pod("noisy"), event.Normal, "Reason", "Action", "note %d", i)
		}
		r.Eventf(pod("quiet"), event.Normal, "Reason", "Action", "note")
		settle(time.Second)
		if n := r.server.Count(apitest.Events); n != 26 {
			t.Errorf("%d events, want 25 of one object and 1 of the other", n)
		}
		settle(time.Minute)
		for i := range 100 {
			r.Eventf(pod("noisy"), event.Normal, "Reason", "Action", "later %d", i)
		}
		settle(time.Second)
		if n := r.server.Count(apitest.Events); n != 28 {
			t.Errorf("%d events, want two more after a minute", n)
		}
		want := "# HELP setpoint_events_dropped_total Events that were not sent, by cause: rate (too many of one object), full (too many waiting), failed (the server did not take it).\n" +
			"# TYPE setpoint_events_dropped_total counter\nsetpoint_events_dropped_total{cause=\"rate\"} 173\n"
		if err := testutil.GatherAndCompare(r.metrics, strings.NewReader(want), "setpoint_events_dropped_total"); err != nil {
			t.Error(err)
		}
	})
}

// What waits is bounded however many objects there are.
func TestQueueIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.server.Intercept(func(apitest.Request) error { return apierrors.NewInternalError(errors.New("down")) })
		for i := range 5000 {
			r.Eventf(pod(fmt.Sprint("p", i)), event.Normal, "Reason", "Action", "note")
		}
		r.server.Intercept(nil)
		settle(time.Hour)
		if n := r.server.Count(apitest.Events); n < 999 || n > 1001 {
			t.Errorf("%d events, want the first thousand", n)
		}
	})
}

// A server in trouble is asked again; one that refuses is not.
func TestRetries(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		tries := 0
		r.server.Intercept(func(apitest.Request) error {
			if tries++; tries < 3 {
				return apierrors.NewTooManyRequestsError("busy")
			}
			return nil
		})
		r.Eventf(pod("p"), event.Normal, "Reason", "Action", "note")
		settle(time.Minute)
		r.only()

		tries = 0
		r.server.Intercept(func(apitest.Request) error {
			tries++
			return apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", errors.New("no role"))
		})
		r.Eventf(pod("q"), event.Normal, "Reason", "Action", "note")
		settle(time.Minute)
		if tries != 1 || !strings.Contains(r.logs.String(), "event not sent") {
			t.Errorf("%d tries of what is forbidden, want 1, and a log line\n%s", tries, r.logs.String())
		}
	})
}

// What was recorded before the stop is sent.
func TestStopFlushes(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.Eventf(pod("p"), event.Normal, "Tick", "Tick", "tick")
		synctest.Wait()
		r.Eventf(pod("p"), event.Normal, "Tick", "Tick", "tick")
		r.Eventf(pod("q"), event.Normal, "Last", "Stop", "last words")
		r.stop()
		counts := map[string]int32{}
		for _, e := range r.server.Events() {
			if counts[e.Note] = 1; e.Series != nil {
				counts[e.Note] = e.Series.Count
			}
		}
		if counts["tick"] != 2 || counts["last words"] != 1 {
			t.Errorf("counts %v", counts)
		}
	})
}

// A server that does not answer does not keep the sink from stopping.
func TestStopIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.server.Intercept(func(apitest.Request) error { return errors.New("down") })
		for i := range 100 {
			r.Eventf(pod(fmt.Sprint("p", i)), event.Normal, "Reason", "Action", "note")
		}
		synctest.Wait()
		start := time.Now()
		r.stop()
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("stopping took %v", took)
		}
	})
}

// Long texts are cut to what the server takes, at the border of a character.
func TestLimits(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		long := strings.Repeat("ä", 2000)
		r.Eventf(pod(strings.Repeat("p", 253)), event.Normal, long, long, long+"%")
		e := r.only()
		if len(e.Note) != 1024 || len(e.Reason) != 128 || len(e.Action) != 128 || len(e.Name) != 253 || strings.ContainsRune(e.Note, '\uFFFD') {
			t.Errorf("lengths %d %d %d %d", len(e.Note), len(e.Reason), len(e.Action), len(e.Name))
		}
	})
}

// Recording is safe from many goroutines, and a nil recorder records nothing.
func TestConcurrentUse(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		(*event.Recorder)(nil).Eventf(pod("p"), event.Normal, "Reason", "Action", "note")
		r.Eventf(nil, event.Normal, "Reason", "Action", "note")
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 100 {
					r.Eventf(pod("p"), event.Normal, "Reason", "Action", "note")
				}
			})
		}
		wg.Wait()
		settle(time.Minute)
		if e := r.only(); e.Series == nil || e.Series.Count != 800 {
			t.Errorf("series %+v, want a count of 800", e.Series)
		}
	})
}
