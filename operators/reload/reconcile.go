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
	op := &operator{
		client: m.Client(), cache: m.Cache(), events: m.Events(Name), options: &o,
		keys:   &keyring{client: m.Client(), name: o.key(), dryRun: o.DryRun},
		budget: newBudget(o.MaxRolling, o.rollingTimeout()),
	}
	var err error
	if op.metrics, err = newMetrics(m.Metrics(), op.budget); err != nil {
		return nil, err
	}
	if o.NotifyURL != "" {
		op.notifier = newNotifier(o.NotifyURL, op.metrics)
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

// pass is one look at one workload.
type pass struct {
	*workload
	req    setpoint.Request
	policy *policy
	key    secretKey
	before *memory // what is remembered; nil: nothing
	seen   map[source]observed
	decision
}

// Reconcile compares what one workload's Pods were rolled for with what the workload follows now, and rolls it, remembers
// a baseline, waits or does nothing.
func (r *reconciler) Reconcile(ctx context.Context, req setpoint.Request) (setpoint.Result, error) {
	w, again, err := r.read(ctx, req)
	if err != nil || again {
		return setpoint.Result{Requeue: again}, err
	}
	if w == nil {
		r.notes.forget(req)
		r.budget.giveUp(r.kind, req)
		r.budget.finished(r.kind, req)
		return setpoint.Result{}, nil
	}
	if !r.kind.rolls(w.Object) {
		r.budget.finished(r.kind, req)
	}
	p := &pass{workload: w, req: req, policy: r.policy(w.Object, w.pods)}
	if p.policy.idle() {
		r.complain(p, nil)
		return r.release(ctx, p)
	}
	if err := r.look(ctx, p); err != nil {
		return setpoint.Result{}, err
	}
	switch {
	case p.before != nil && p.before.Suspended:
		return r.resume(ctx, p)
	case len(p.changes) == 0:
		return r.keep(ctx, p)
	}
	return r.due(ctx, p)
}

// read returns the workload, or nil when there is none that concerns this operator. It asks to be called again when the
// cache changed in between. What the server has and the cache does not is of no use here, so the operator's role does not
// allow to get workloads: while the cache is far behind an own write, the read fails and is tried again.
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

// look finds what the workload follows and what is remembered, and decides.
func (r *reconciler) look(ctx context.Context, p *pass) (err error) {
	problems := p.policy.problems
	if p.key, err = r.keys.get(ctx); err != nil {
		return err
	}
	if p.before, err = p.memory(p.key.id); err != nil {
		// Somebody edited it by hand: what the Pods were rolled for is not known any more.
		problems = append(problems, err.Error()+"; the present content of its sources is the baseline now")
	}
	if dry := r.notes.dryMemory(p.req); dry != nil {
		p.before = dry
	}
	if err := r.observe(ctx, p); err != nil {
		return err
	}
	p.decision = decide(p.before, p.seen, p.policy)
	if p.left > 0 {
		problems = append(problems, fmt.Sprintf("%d sources are followed, and %d more are not: use fewer or narrower expressions", maxSources, p.left))
	}
	r.complain(p, problems)
	return nil
}

// complain says in an Event what is wrong with a workload's annotations, once for each new problem.
func (r *reconciler) complain(p *pass, problems []string) {
	for _, problem := range r.notes.news(p.req, problems) {
		r.metrics.problems.Inc()
		r.events.Eventf(p.Object, event.Warning, "InvalidReload", "Reload", "%s", problem)
	}
}

// release takes back what is remembered on a workload that follows nothing any more. The stamp stays, for without it the
// template would be another one and the workload would roll.
func (r *reconciler) release(ctx context.Context, p *pass) (setpoint.Result, error) {
	r.settle(p)
	if r.options.DryRun || !owns(p.ours, State) {
		return setpoint.Result{}, nil
	}
	return r.apply(ctx, p, nil, p.stamp())
}

// settle notes that the workload does not have to roll.
func (r *reconciler) settle(p *pass) {
	r.notes.settle(p.req)
	r.budget.giveUp(r.kind, p.req)
}

// keep remembers the baseline of sources that are new to the workload, and drops those that it follows no more.
func (r *reconciler) keep(ctx context.Context, p *pass) (setpoint.Result, error) {
	r.settle(p)
	if p.before != nil && maps.Equal(p.before.Sources, p.decision.next) {
		return setpoint.Result{}, nil
	}
	if p.before == nil && len(p.decision.next) == 0 && !p.policy.onCreate {
		return setpoint.Result{}, nil
	}
	if err := r.seek(ctx, p); err != nil {
		return setpoint.Result{}, err
	}
	return r.apply(ctx, p, p.next(), p.stamp())
}

// next returns what to remember of the decision.
func (p *pass) next() *memory {
	next := p.before.clone()
	next.Key, next.Sources = p.key.id, p.decision.next
	if p.before == nil {
		next.Since = thisSecond()
	}
	if next.Restart != p.restartAt() {
		next.Restart = "" // somebody else has restarted it since
	}
	return next
}

// thisSecond returns the time as it can be written down.
func thisSecond() metav1.Time { return metav1.NewTime(time.Now().UTC().Truncate(time.Second)) }

// due rolls the workload when its time has come.
func (r *reconciler) due(ctx context.Context, p *pass) (setpoint.Result, error) {
	if wait := r.wait(p); wait > 0 {
		return setpoint.Result{RequeueAfter: wait}, nil
	}
	if corrected, err := r.confirm(ctx, p); err != nil {
		return setpoint.Result{}, err
	} else if corrected {
		if p.decision = decide(p.before, p.seen, p.policy); len(p.changes) == 0 {
			r.settle(p)
			return setpoint.Result{RequeueAfter: staleCache}, nil
		}
	}
	if err := r.seek(ctx, p); err != nil {
		return setpoint.Result{}, err
	}
	if r.kind.settled != nil && !r.options.DryRun {
		if free, err := r.budget.take(ctx, r.kind, p.req); err != nil || !free {
			return setpoint.Result{RequeueAfter: budgetPatience}, err
		}
	}
	next := p.next()
	next.Rolled = new(thisSecond())
	done, result, err := r.roll(ctx, p, next)
	if err != nil && ctx.Err() == nil {
		r.events.Eventf(p.Object, event.Warning, "ReloadFailed", "Reload", "Rolling it, since %s, failed and is tried again: %v", describe(p.changes), err)
	}
	if !done {
		r.budget.finished(r.kind, p.req)
		return result, err
	}
	r.settle(p)
	r.report(ctx, p)
	return result, err
}

// wait returns how long to wait for further changes, and for the end of the pause after the last rollout. That was taken by
// another replica's clock, perhaps, so the pause counts from now at the latest.
func (r *reconciler) wait(p *pass) time.Duration {
	window := time.Until(r.notes.first(p.req, time.Now()).Add(p.policy.window))
	pause := min(time.Until(p.before.rolledAt().Add(p.policy.pause)), p.policy.pause)
	return max(window, pause)
}

// roll makes the Pods of the workload start anew, and remembers what for. It reports whether it did.
func (r *reconciler) roll(ctx context.Context, p *pass, next *memory) (done bool, result setpoint.Result, err error) {
	stamp := next.stamp(p.key, p.stamp())
	switch r.kind.gvk.Kind {
	case "Job":
		return r.rollJob(ctx, p, next)
	case "CronJob":
		if done, err := r.runNow(ctx, p, next); !done || err != nil {
			return false, setpoint.Result{}, err
		}
	case "Rollout":
		if p.policy.restart {
			next.Restart, stamp = restartAfter(p.restartAt(), next.Rolled.Time), p.stamp()
		}
	}
	result, err = r.apply(ctx, p, next, stamp)
	return err == nil && !result.Requeue, result, err
}

// restartAfter returns the spec.restartAt of a restart now, which is another one than that of the last restart.
func restartAfter(last string, now time.Time) string {
	if at := now.Format(time.RFC3339); at != last {
		return at
	}
	return now.Add(time.Second).Format(time.RFC3339)
}

// apply writes the operator's fields of the workload at once, unless it has changed or gone since it was read; then it asks
// for another reconcile. A dry run only notes what would be remembered.
func (r *reconciler) apply(ctx context.Context, p *pass, m *memory, stamp string) (setpoint.Result, error) {
	if r.options.DryRun {
		r.notes.setDryMemory(p.req, m)
		return setpoint.Result{}, nil
	}
	document, err := p.document(m, stamp)
	if err != nil {
		return setpoint.Result{}, err
	}
	err = r.client.Apply(ctx, document, client.ForceOwnership, client.IfUnchanged)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return setpoint.Result{Requeue: true}, nil
	}
	return setpoint.Result{}, err
}

// report tells of a rollout.
func (r *reconciler) report(ctx context.Context, p *pass) {
	why, kind := describe(p.changes), r.kind.gvk.Kind
	if r.options.DryRun {
		r.events.Eventf(p.Object, event.Normal, "WouldReload", "Reload", "Dry run: would be rolled, since %s", why)
		setpoint.Logger(ctx).Info("dry run: would roll", "kind", kind, "why", why)
		return
	}
	setpoint.Logger(ctx).Info("rolled", "kind", kind, "why", why)
	r.metrics.rollouts.WithLabelValues(kind).Inc()
	r.events.Eventf(p.Object, event.Normal, "Reloaded", "Reload", "%s, since %s", effect(p.Object), why)
	if r.notifier != nil {
		r.notifier.add(newNotification(p.workload, p.changes))
	}
}
