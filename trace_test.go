package setpoint_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/internal/apitest"
)

// recorder is a tracer that keeps its spans. Identifiers count up.
type recorder struct {
	noop.TracerProvider

	mu    sync.Mutex
	spans []*recordedSpan
}

type recordedSpan struct {
	noop.Span
	name    string
	self    trace.SpanContext
	parent  trace.SpanContext
	links   []trace.Link
	from    time.Time
	to      time.Time
	attrs   map[attribute.Key]string
	failure error
}

func (r *recorder) tracing(cfg *setpoint.Config) { cfg.Tracer = r }

func (r *recorder) Tracer(string, ...trace.TracerOption) trace.Tracer { return recordingTracer{r: r} }

type recordingTracer struct {
	noop.Tracer
	r *recorder
}

func (t recordingTracer) Start(ctx context.Context, name string, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	r, cfg := t.r, trace.NewSpanStartConfig(opts...)
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &recordedSpan{name: name, links: cfg.Links(), from: cfg.Timestamp(), attrs: map[attribute.Key]string{}}
	if !cfg.NewRoot() {
		s.parent = trace.SpanContextFromContext(ctx)
	}
	r.spans = append(r.spans, s)
	self := trace.SpanContextConfig{TraceID: s.parent.TraceID(), TraceFlags: trace.FlagsSampled}
	binary.BigEndian.PutUint64(self.SpanID[:], uint64(len(r.spans)))
	if !s.parent.IsValid() {
		binary.BigEndian.PutUint64(self.TraceID[:], uint64(len(r.spans)))
	}
	s.self = trace.NewSpanContext(self)
	s.SetAttributes(cfg.Attributes()...)
	return trace.ContextWithSpan(ctx, s), s
}

func (s *recordedSpan) SpanContext() trace.SpanContext { return s.self }

func (s *recordedSpan) SetAttributes(attrs ...attribute.KeyValue) {
	for _, a := range attrs {
		s.attrs[a.Key] = a.Value.String()
	}
}

func (s *recordedSpan) RecordError(err error, _ ...trace.EventOption) { s.failure = err }

func (s *recordedSpan) End(opts ...trace.SpanEndOption) {
	end := trace.NewSpanEndConfig(opts...)
	if s.to = end.Timestamp(); s.to.IsZero() {
		s.to = time.Now()
	}
}

// tree says the spans of a trace, children indented below their parents, in the
// order of their beginning.
func (r *recorder) tree(parent trace.SpanContext, indent string) (lines []string) {
	for _, s := range r.spans {
		if s.parent.SpanID() == parent.SpanID() {
			lines = append(lines, fmt.Sprintf("%s%s %s", indent, s.name, s.attrs["setpoint.request.name"]+s.attrs["setpoint.object.name"]))
			lines = append(lines, r.tree(s.self, indent+"  ")...)
		}
	}
	return lines
}

// A trace leads from a write through the queue to the writes of the reconcile that
// it causes.
func TestTrace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps, apitest.Secrets)
		spans := &recorder{}
		var headers []string
		r := newRig(t, server, spans.tracing, func(cfg *setpoint.Config) {
			cfg.REST.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return roundTrip(func(req *http.Request) (*http.Response, error) {
					if req.Method == http.MethodPost {
						headers = append(headers, req.URL.Path+" "+req.Header.Get("traceparent"))
					}
					return next.RoundTrip(req)
				})
			})
		})
		setpoint.For[*corev1.ConfigMap](r.m, "copy").Reconcile(func(ctx context.Context, o *corev1.ConfigMap) (setpoint.Result, error) {
			time.Sleep(time.Second)
			if o.Name != "web" {
				return setpoint.Result{}, nil
			}
			return setpoint.Result{}, r.m.Client().Create(ctx, secret(o.Name))
		})
		r.start()
		apitest.Put(server, configMap("default", "unknown")) // written by somebody else
		ctx, user := spans.Tracer("").Start(t.Context(), "user")
		if err := r.m.Client().Create(ctx, configMap("default", "web")); err != nil {
			t.Fatal(err)
		}
		user.End()
		settle(time.Minute)
		got := strings.Join(spans.tree(trace.SpanContext{}, ""), "\n")
		const want = `user 
  create configmaps web
    queue copy web
      reconcile copy web
        create secrets web
queue copy unknown
  reconcile copy unknown`
		if sortedTop(got) != sortedTop(want) {
			t.Errorf("spans:\n%s\nwant:\n%s", got, want)
		}
		for _, s := range spans.spans {
			if s.to.IsZero() || s.failure != nil {
				t.Errorf("span %s has not ended, or with %v", s.name, s.failure)
			}
			if s.name == "reconcile copy" && s.attrs["setpoint.object.name"] == "web" {
				wait := s.attrs["setpoint.queue.wait"]
				if len(s.links) != 1 || s.attrs["setpoint.result"] != "success" || s.to.Sub(s.from) != time.Second || wait != "1" && wait != "0" {
					t.Errorf("reconcile: %+v", s)
				}
			}
		}
		if len(headers) != 2 || !strings.HasSuffix(headers[0], "-01") || strings.HasSuffix(headers[1], " ") {
			t.Errorf("traceparent: %q", headers)
		}
	})
}

// sortedTop sorts the trees of a text by their first lines.
func sortedTop(text string) string {
	trees := strings.Split(strings.ReplaceAll(text, "\n ", "\x00 "), "\n")
	slices.Sort(trees)
	return strings.ReplaceAll(strings.Join(trees, "\n"), "\x00", "\n")
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// Reconciles that wake each other do not make one trace without end, and what is
// remembered of writes is bounded.
func TestTracesEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps)
		spans := &recorder{}
		r := newRig(t, server, spans.tracing)
		setpoint.For[*corev1.ConfigMap](r.m, "loop").Reconcile(func(ctx context.Context, o *corev1.ConfigMap) (setpoint.Result, error) {
			before := o.DeepCopy()
			o.Data = map[string]string{"n": o.ResourceVersion}
			if len(o.ResourceVersion) > 3 {
				return setpoint.Result{}, nil
			}
			return setpoint.Result{}, r.m.Client().Patch(ctx, o, client.MergeFrom(before))
		})
		r.start()
		apitest.Put(server, configMap("default", "web"))
		settle(time.Hour)
		reconciles := map[trace.TraceID]int{}
		linked := 0
		for _, s := range spans.spans {
			if s.name == "reconcile loop" {
				reconciles[s.self.TraceID()]++
				linked += len(s.links)
			}
		}
		total := 0
		for id, n := range reconciles {
			if total += n; n > 17 {
				t.Errorf("trace %v has %d reconciles", id, n)
			}
		}
		if total < 500 || linked != total-1 {
			t.Errorf("%d reconciles in %d traces, %d links", total, len(reconciles), linked)
		}
	})
}
