package reload

import (
	"context"
	"fmt"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/cache"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/event"
)

// operator is what the controllers of all kinds of workloads share.
type operator struct {
	client   *client.Client
	cache    *cache.Cache
	events   *event.Recorder
	options  *Options
	keys     *keyring
	budget   *budget
	metrics  *metrics
	notifier *notifier // nil: nobody is notified
}

func newOperator(m *setpoint.Manager, o Options) (*operator, error) {
	metrics, err := newMetrics(m.Metrics())
	if err != nil {
		return nil, err
	}
	op := &operator{
		client: m.Client(), cache: m.Cache(), events: m.Events(Name), options: &o, metrics: metrics,
		keys:   &keyring{client: m.Client(), name: o.key(), dryRun: o.DryRun},
		budget: newBudget(o.MaxRolling, o.rollingTimeout()),
	}
	if o.NotifyURL != "" {
		op.notifier = newNotifier(o.NotifyURL, metrics)
		m.Add(setpoint.Runnable{Name: Name + "-notifier", Run: op.notifier.run})
	}
	return op, nil
}

// reconciler rolls the workloads of one kind. It carries out what the pure functions decide.
type reconciler struct {
	*operator
	kind  *workloadKind
	notes *notebook
}

// Reconcile compares what one workload's Pods were rolled for with what the workload follows now, and rolls it, remembers
// a baseline, waits or does nothing.
func (r *reconciler) Reconcile(ctx context.Context, req setpoint.Request) (setpoint.Result, error) {
	w, again, err := r.read(ctx, req)
	if w == nil {
		if !again && err == nil {
			r.forget(req)
		}
		return setpoint.Result{Requeue: again}, err
	}
	if r.kind.settled(w.Object) {
		r.budget.finished(r.kind, req)
	}
	p := r.policy(w.Object, w.pods)
	r.complain(w, p.problems)
	if p.idle() {
		return r.release(ctx, req, w)
	}
	key, err := r.keys.get(ctx)
	if err != nil {
		return setpoint.Result{}, err
	}
	before, err := r.remembered(req, w, key)
	if err != nil {
		return setpoint.Result{}, err
	}
	seen, err := r.observe(ctx, w, p, key, before)
	if err != nil {
		return setpoint.Result{}, err
	}
	d := decide(before, seen, p)
	if d.left > 0 {
		r.complain(w, []string{fmt.Sprintf("%d sources are followed, and %d more are not: use fewer or narrower expressions", maxSources, d.left)})
	}
	if len(d.changes) == 0 {
		return r.keep(ctx, req, w, p, key, before, d)
	}
	return r.due(ctx, req, w, p, key, before, seen, d)
}

// read returns the workload, or nil when there is none that concerns this operator. It asks to be called again when the
// cache changed in between.
func (r *reconciler) read(ctx context.Context, req setpoint.Request) (w *workload, again bool, err error) {
	obj := r.kind.empty()
	if err := r.client.Get(ctx, req.Key(), obj); err != nil {
		return nil, false, client.IgnoreNotFound(err)
	}
	if obj.GetDeletionTimestamp() != nil {
		return nil, false, nil
	}
	entry, ok := r.cache.Peek(r.kind.gvk, req.Key())
	if !ok || entry.ResourceVersion() != obj.GetResourceVersion() {
		return nil, true, nil
	}
	pods := r.kind.template(obj)
	if pods == nil {
		return nil, false, nil
	}
	obj.GetObjectKind().SetGroupVersionKind(r.kind.gvk)
	return &workload{workloadKind: r.kind, Object: obj, pods: pods, ours: entry.ManagedFields()}, false, nil
}

// forget drops what is noted of a workload that is gone.
func (r *reconciler) forget(req setpoint.Request) {
	r.notes.forget(req)
	r.budget.finished(r.kind, req)
}

// remembered returns what is remembered on the workload; in a dry run, what would be.
func (r *reconciler) remembered(req setpoint.Request, w *workload, key secretKey) (*memory, error) {
	if r.options.DryRun {
		if m := r.notes.dryMemory(req); m != nil {
			return m, nil
		}
	}
	m, err := w.memory(key.id)
	if err != nil {
		// Somebody edited it by hand: what the Pods were rolled for is not known any more.
		r.complain(w, []string{err.Error() + "; the present content of its sources is the baseline now"})
		return nil, nil
	}
	return m, nil
}

// complain says in an Event what is wrong with a workload's annotations, once for each new problem.
func (r *reconciler) complain(w *workload, problems []string) {
	for _, problem := range r.notes.news(setpoint.RequestFor(w), problems) {
		r.metrics.problems.Inc()
		r.events.Eventf(w.Object, event.Warning, "InvalidReload", "Reload", "%s", problem)
	}
}

// release takes back what is remembered on a workload that follows nothing any more. The stamp stays, for without it the
// template would be another one and the workload would roll.
func (r *reconciler) release(ctx context.Context, req setpoint.Request, w *workload) (setpoint.Result, error) {
	r.notes.settle(req)
	if r.options.DryRun || !owns(w.ours, State) {
		return setpoint.Result{}, nil
	}
	return r.apply(ctx, w, nil, w.stamp())
}

// keep remembers the baseline of sources that are new to the workload, and drops those that it follows no more.
func (r *reconciler) keep(ctx context.Context, req setpoint.Request, w *workload, p *policy, key secretKey, before *memory, d decision) (setpoint.Result, error) {
	r.notes.settle(req)
	if before != nil && maps.Equal(before.Sources, d.next) {
		return setpoint.Result{}, nil
	}
	if before == nil && len(d.next) == 0 && !p.onCreate {
		return setpoint.Result{}, nil
	}
	next := r.next(key, before, d)
	if r.options.DryRun {
		r.notes.setDryMemory(req, next)
		return setpoint.Result{}, nil
	}
	return r.apply(ctx, w, next, w.stamp())
}

// next returns what to remember of a decision.
func (r *reconciler) next(key secretKey, before *memory, d decision) *memory {
	next := before.clone()
	next.Key, next.Sources = key.id, d.next
	if before == nil {
		next.Since = metav1.NewTime(time.Now().Truncate(time.Second))
	}
	return next
}

// due rolls the workload when its time has come.
func (r *reconciler) due(
	ctx context.Context, req setpoint.Request, w *workload, p *policy, key secretKey, before *memory, seen map[source]observed, d decision,
) (setpoint.Result, error) {
	now := time.Now()
	if wait := max(r.notes.first(req, now).Add(p.window).Sub(now), before.rolledAt().Add(p.pause).Sub(now)); wait > 0 {
		return setpoint.Result{RequeueAfter: wait}, nil
	}
	if corrected, err := r.confirm(ctx, w, key, before, seen, d); err != nil {
		return setpoint.Result{}, err
	} else if corrected {
		if d = decide(before, seen, p); len(d.changes) == 0 {
			return setpoint.Result{RequeueAfter: staleCache}, nil
		}
	}
	next := r.next(key, before, d)
	next.Rolled = &metav1.Time{Time: now.Truncate(time.Second)}
	if r.options.DryRun {
		r.notes.settle(req)
		r.notes.setDryMemory(req, next)
		r.events.Eventf(w.Object, event.Normal, "WouldReload", "Reload", "Dry run: would be rolled, since %s", describe(d.changes))
		setpoint.Logger(ctx).Info("Dry run: would roll", "kind", r.kind.gvk.Kind, "why", describe(d.changes))
		return setpoint.Result{}, nil
	}
	if free, err := r.budget.take(ctx, r.kind, req); err != nil {
		return setpoint.Result{}, err
	} else if !free {
		return setpoint.Result{RequeueAfter: budgetPatience}, nil
	}
	result, err := r.roll(ctx, w, p, key, next)
	if err != nil || result.Requeue {
		r.budget.finished(r.kind, req)
		return result, err
	}
	r.notes.settle(req)
	r.report(ctx, w, d.changes)
	return result, nil
}

// roll writes the new stamp and what to remember, at once.
func (r *reconciler) roll(ctx context.Context, w *workload, p *policy, key secretKey, next *memory) (setpoint.Result, error) {
	return r.apply(ctx, w, next, next.stamp(key, w.stamp()))
}

// apply writes the operator's fields of the workload, unless it has changed since it was read; then it asks for another
// reconcile.
func (r *reconciler) apply(ctx context.Context, w *workload, m *memory, stamp string) (setpoint.Result, error) {
	document, err := w.document(m, stamp)
	if err != nil {
		return setpoint.Result{}, err
	}
	err = r.client.Apply(ctx, document, client.ForceOwnership, client.IfUnchanged)
	switch {
	case apierrors.IsConflict(err):
		return setpoint.Result{Requeue: true}, nil
	case apierrors.IsNotFound(err):
		return setpoint.Result{}, nil
	}
	return setpoint.Result{}, err
}

// report tells of a rollout.
func (r *reconciler) report(ctx context.Context, w *workload, changes []change) {
	why := describe(changes)
	setpoint.Logger(ctx).Info("Rolled", "kind", r.kind.gvk.Kind, "why", why)
	r.metrics.rollouts.WithLabelValues(r.kind.gvk.Kind).Inc()
	r.events.Eventf(w.Object, event.Normal, "Reloaded", "Reload", "Rolled, since %s", why)
	if r.notifier != nil {
		r.notifier.add(newNotification(w, changes))
	}
}
