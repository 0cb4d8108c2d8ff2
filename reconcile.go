package setpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/queue"
	"github.com/setpoint-dev/setpoint/telemetry"
)

// errGone ends a reconcile whose object does not exist.
var errGone = errors.New("the object is gone")

// errPaused ends a reconcile whose object is paused.
var errPaused = errors.New("the object is paused")

// errTimeout is the cause of the end of a context whose reconcile took too long.
var errTimeout = errors.New("the reconcile's timeout is over")

// work takes keys from the queue and reconciles them, until ctx ends. Each
// reconcile runs under the term of its shard, which ends later.
func (c *site) work(ctx context.Context) error {
	select {
	case <-c.synced:
	case <-ctx.Done():
		return nil
	}
	for c.pause.wait(ctx) {
		item, err := c.take(ctx)
		if err != nil {
			return nil // ctx ended, or the queue was shut down because it will
		}
		if c.pause.wait(ctx) { // which may have begun while the worker waited for a key
			c.process(ctx, item)
		}
		c.queue.Done(item.Key)
	}
	return nil
}

// take waits for a key to reconcile. Those of shards that are not held cost the
// others no time.
func (c *site) take(ctx context.Context) (item queue.Item[Request], err error) {
	err = c.throttle.next(ctx, func() error {
		for {
			if item, err = c.queue.Get(ctx); err != nil || c.m.leads.holds(item.Key) {
				return err
			}
			c.giveUp(item.Key, item.Causes)
			c.queue.Done(item.Key)
		}
	})
	return item, err
}

// process reconciles an item when its turn comes, or gives it up when its shard
// is not held then.
func (c *site) process(ctx context.Context, item queue.Item[Request]) {
	if !c.cluster.acquire(ctx) {
		return
	}
	defer c.cluster.release()
	worker := "worker of controller " + c.name
	t := c.m.leads.termOf(item.Key)
	if t == nil || !t.enter(worker) {
		c.giveUp(item.Key, item.Causes)
		return
	}
	defer t.ended(worker, nil)
	c.handle(t.ctx, item)
}

// handle reconciles one item and does what its outcome says.
func (c *site) handle(term context.Context, item queue.Item[Request]) {
	start := time.Now()
	info := &reconcileInfo{id: fmt.Sprintf("%016x", c.m.random()), req: item.Key, since: start, causes: item.Causes}
	log := c.log.With("object", item.Key.String(), "reconcileID", info.id, "causes", causesValue(item.Causes))
	ctx, release := c.cluster.bind(logr.NewContextWithSlogLogger(term, log))
	defer release()
	ctx = context.WithValue(ctx, contextKey{}, info)
	ctx, traced := c.m.tracer.reconcile(ctx, c.Controller, info, item)
	if c.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.timeout, errTimeout)
		defer cancel()
	}
	selfTriggered := c.loops.begin(item.Key, item.Causes)

	c.metrics.ActiveWorkers.Inc()
	ctx, done := c.running.add(ctx, info)
	var result Result
	err := recovered(func() (err error) {
		result, err = c.call(ctx, item.Key)
		return err
	})
	done()
	c.metrics.ActiveWorkers.Dec()

	o := decide(result, err, term.Err() != nil || c.cluster.ended() || errors.Is(err, errFenced))
	took := time.Since(start)
	if c.m.leads.holds(item.Key) {
		c.queueAgain(item.Key, o)
	} else {
		c.giveUp(item.Key, item.Causes)
	}
	traced(o, err)
	c.remember(info, item, o, took, err)
	c.count(ctx, o, took, err)
	o.log(log, took, err, item.Failures)
	c.reportLoop(log, info, selfTriggered)
}

// call runs the reconciler, for the object form with a copy of the object.
func (c *site) call(ctx context.Context, req Request) (Result, error) {
	if c.onRequest != nil {
		if c.keyPaused(req) {
			return Result{}, errPaused
		}
		if !surelyHeld(ctx) {
			return Result{}, errFenced
		}
		return c.onRequest.Reconcile(ctx, req)
	}
	obj := c.newEmpty()
	if err := c.cluster.client.Get(ctx, req.Key(), obj); apierrors.IsNotFound(err) {
		return Result{}, errGone
	} else if err != nil {
		return Result{}, fmt.Errorf("read %s %v: %w", kindName(c.kind), req, err)
	}
	if isPaused(obj.GetAnnotations()) {
		return Result{}, errPaused
	}
	if !surelyHeld(ctx) {
		return Result{}, errFenced // the read took long, or the process stood still
	}
	return c.onObject(ctx, obj)
}

// outcome is what becomes of a key after its reconcile.
type outcome struct {
	result string // for metrics; "" when no reconciler was called
	forget bool   // the key's back-off ends
	retry  bool   // again after the key's back-off
	after  time.Duration
	level  slog.Level
	text   string
}

// decide turns what a reconcile returned into its outcome.
//
//	Terminal(error)     wait for a change
//	error               retry; no error in the log when it is a write conflict
//	                    or the reconcile was interrupted by the manager's end
//	RequeueAfter > 0    plan, back-off reset
//	Requeue, or < 0     retry, no error
//	otherwise           wait for a change, back-off reset
func decide(result Result, err error, interrupted bool) outcome {
	switch {
	case errors.Is(err, errGone):
		return outcome{forget: true, level: slog.LevelDebug, text: "the object is gone"}
	case errors.Is(err, errPaused):
		return outcome{forget: true, level: slog.LevelDebug, text: "the object is paused"}
	case IsTerminal(err):
		return outcome{result: telemetry.ResultError, forget: true, level: slog.LevelError, text: "reconcile failed, waiting for a change"}
	case err != nil && interrupted:
		return outcome{result: telemetry.ResultError, retry: true, level: slog.LevelInfo, text: "reconcile interrupted"}
	case apierrors.IsConflict(err):
		return outcome{result: telemetry.ResultError, retry: true, level: slog.LevelInfo, text: "reconcile met a write conflict, trying again"}
	case err != nil:
		return outcome{result: telemetry.ResultError, retry: true, level: slog.LevelError, text: "reconcile failed, trying again"}
	case result.RequeueAfter > 0:
		return outcome{result: telemetry.ResultRequeueAfter, forget: true, after: result.RequeueAfter, level: slog.LevelDebug, text: "reconciled, planned again"}
	case result.Requeue || result.RequeueAfter < 0:
		return outcome{result: telemetry.ResultRequeue, retry: true, level: slog.LevelDebug, text: "reconciled, trying again"}
	default:
		return outcome{result: telemetry.ResultSuccess, forget: true, level: slog.LevelDebug, text: "reconciled"}
	}
}

// queueAgain does what the outcome says to the key.
func (c *site) queueAgain(req Request, o outcome) {
	if o.forget {
		c.queue.Forget(req)
	}
	switch {
	case o.retry:
		c.queue.AddRateLimited(req, queue.Cause{Source: "Retry"})
	case o.after > 0:
		c.queue.AddAfter(req, o.after, queue.Cause{Source: "After"})
	}
}

// count adds a reconcile to the metrics.
func (c *Controller) count(ctx context.Context, o outcome, took time.Duration, err error) {
	if o.result == "" {
		return
	}
	c.metrics.Done(o.result, took)
	if err != nil {
		c.metrics.Errors.Inc()
	}
	if IsTerminal(err) {
		c.metrics.Terminal.Inc()
	}
	if panicked := (*panicError)(nil); errors.As(err, &panicked) {
		c.metrics.Panics.Inc()
	}
	if errors.Is(context.Cause(ctx), errTimeout) {
		c.metrics.Timeouts.Inc()
	}
}

// log says what became of a reconcile.
func (o outcome) log(log *slog.Logger, took time.Duration, err error, failures int) {
	attrs := []any{"duration", took}
	if err != nil && o.result != "" {
		attrs = append(attrs, "error", err)
	}
	if failures > 0 {
		attrs = append(attrs, "failures", failures)
	}
	if panicked := (*panicError)(nil); errors.As(err, &panicked) {
		attrs = append(attrs, "stack", string(panicked.stack))
	}
	if o.after > 0 {
		attrs = append(attrs, "after", o.after)
	}
	log.Log(context.Background(), o.level, o.text, attrs...)
}

// causesValue shows causes in a log: "Owns Deployment.apps default/web modified
// (3 times)".
type causesValue []queue.Cause

// LogValue implements slog.LogValuer.
func (causes causesValue) LogValue() slog.Value { return slog.AnyValue(causes.texts()) }

func (causes causesValue) texts() []string {
	texts := make([]string, len(causes))
	for i, cause := range causes {
		texts[i] = debugCause(cause).String()
	}
	return texts
}
