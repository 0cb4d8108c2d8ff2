package setpoint

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/queue"
)

// tracerName is what the spans of a manager name as their maker.
const tracerName = "github.com/setpoint-dev/setpoint"

// maxHops is how many reconciles may follow from each other in one trace. One
// more begins a trace of its own, with a link, so that objects that wake each
// other for ever are not one trace without end.
const maxHops = 16

// tracer makes spans. Nil makes none.
//
// The trace of a write goes on with what the write causes: a span for the time in
// the queue, its child for the reconcile, and that one's children for the requests
// that it sends. A reconcile of several causes is in the trace of the first whose
// write is known, and linked to those of all. What another process wrote is not
// known: such a reconcile begins a trace.
type tracer struct {
	trace.Tracer
	written tracedWrites
}

func newTracer(provider trace.TracerProvider) *tracer {
	if provider == nil {
		return nil
	}
	return &tracer{Tracer: provider.Tracer(tracerName), written: newTracedWrites()}
}

// reconcile begins the span of a reconcile, which lasts until the returned
// function is called.
func (t *tracer) reconcile(ctx context.Context, c *Controller, info *reconcileInfo, item queue.Item[Request]) (context.Context, func(outcome, error)) {
	if t == nil {
		return ctx, func(outcome, error) {}
	}
	var links []trace.Link
	first := tracedWrite{}
	for _, cause := range item.Causes {
		w, ok := t.written.find(cause)
		if !ok {
			continue
		}
		links = append(links, trace.Link{SpanContext: w.span, Attributes: []attribute.KeyValue{attribute.String("setpoint.cause", debugCause(cause).String())}})
		if !first.span.IsValid() {
			first = w
		}
	}
	begins := []trace.SpanStartOption{trace.WithTimestamp(item.Added), trace.WithLinks(links...),
		trace.WithAttributes(attribute.String("setpoint.queue.class", item.Class.String()))}
	if first.span.IsValid() && first.hops < maxHops {
		info.hops = first.hops + 1
		ctx = trace.ContextWithSpanContext(ctx, first.span)
	} else {
		begins = append(begins, trace.WithNewRoot()) // not under a span that Run was called in
	}
	about := trace.WithAttributes(
		attribute.String("setpoint.controller", c.name),
		attribute.String("setpoint.object.kind", kindName(c.kind)),
		attribute.String("setpoint.object.cluster", item.Key.Cluster),
		attribute.String("setpoint.object.namespace", item.Key.Namespace),
		attribute.String("setpoint.object.name", item.Key.Name),
	)
	queued, waiting := t.Start(ctx, "queue "+c.name, append(begins, about)...)
	waiting.End(trace.WithTimestamp(info.since))
	ctx, span := t.Start(queued, "reconcile "+c.name, trace.WithTimestamp(info.since), about, trace.WithLinks(links...), trace.WithAttributes(
		attribute.String("setpoint.reconcile.id", info.id),
		attribute.Float64("setpoint.queue.wait", info.since.Sub(item.Added).Seconds()),
		attribute.Int("setpoint.failures", item.Failures),
		attribute.StringSlice("setpoint.causes", causesValue(item.Causes).texts()),
	))
	info.traceID = span.SpanContext().TraceID().String()
	return ctx, func(o outcome, err error) {
		span.SetAttributes(attribute.String("setpoint.result", o.result))
		if o.result != "" {
			failed(span, err)
		}
		span.End()
	}
}

// failed marks a span whose work failed.
func failed(span trace.Span, err error) {
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	}
}

// request begins the span of a request to the API server.
func (t *tracer) request(ctx context.Context, r client.Request) (context.Context, trace.Span) {
	return t.Start(ctx, r.Verb+" "+r.Resource.GroupResource().String(), trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("setpoint.request.verb", r.Verb),
		attribute.String("setpoint.request.resource", r.Resource.GroupResource().String()),
		attribute.String("setpoint.request.subresource", r.Subresource),
		attribute.String("setpoint.request.namespace", r.Namespace),
		attribute.String("setpoint.request.name", r.Name),
	))
}

// read sends a live read, in a span when it belongs to something that has one.
func (t *tracer) read(ctx context.Context, r client.Request, send func(context.Context) error) error {
	if t == nil || !trace.SpanContextFromContext(ctx).IsValid() {
		return send(ctx)
	}
	ctx, span := t.request(ctx, r)
	defer span.End()
	err := send(ctx)
	failed(span, err)
	return err
}

// write begins the span of a write, which lasts until the returned function is
// called. From now on the object's changes are known to come from it.
func (t *tracer) write(ctx context.Context, cluster, kind string, r client.Request) (context.Context, func(client.Written)) {
	if t == nil {
		return ctx, func(client.Written) {}
	}
	hops := 0
	if info := infoOf(ctx); info != nil {
		hops = info.hops
	}
	ctx, span := t.request(ctx, r)
	w := t.written.begin(cluster, kind, r, span.SpanContext(), hops)
	return ctx, func(done client.Written) {
		t.written.end(w, kind, Request{cluster, r.Namespace, done.Name}, done)
		span.SetAttributes(attribute.String("setpoint.request.name", done.Name), attribute.String("setpoint.request.version", done.Version))
		failed(span, done.Err)
		span.End()
	}
}

// wrap returns a transport that tells the API server the span of each request, as
// the W3C's traceparent header.
func (t *tracer) wrap(next http.RoundTripper) http.RoundTripper {
	return tracingTransport{next}
}

type tracingTransport struct{ next http.RoundTripper }

func (t tracingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if trace.SpanContextFromContext(req.Context()).IsValid() {
		req = req.Clone(req.Context()) // a transport must not change what it is given
		propagation.TraceContext{}.Inject(req.Context(), propagation.HeaderCarrier(req.Header))
	}
	return t.next.RoundTrip(req)
}

// WrappedRoundTripper returns the transport that t sends with, for those who
// look for a particular one.
func (t tracingTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// observe is told of each write of the client: for traces and for the history.
func (m *Manager) observe(ctx context.Context, c *Cluster, r client.Request) (context.Context, func(client.Written)) {
	if m.tracer == nil && m.history == nil {
		return ctx, func(client.Written) {}
	}
	kind := c.kindOf(r.Resource)
	info := infoOf(ctx)
	ctx, ended := m.tracer.write(ctx, c.name, kind, r)
	return ctx, func(w client.Written) {
		ended(w)
		if m.history != nil && info != nil {
			info.note(debugWrite(c.name, kind, r, w))
		}
	}
}
