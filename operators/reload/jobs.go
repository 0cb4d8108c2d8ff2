package reload

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
)

// rerunTTL is how many seconds the Jobs that were made by Rerun live after they finished, unless their pattern says it.
const rerunTTL = 24 * 60 * 60

// jobAction is how a Job takes a change.
type jobAction uint8

const (
	// jobNote: no Pod of it runs; those to come start with what there is then.
	jobNote jobAction = iota
	// jobRestart: its Pods are replaced.
	jobRestart
	// jobRerun: it is finished, and a copy of it is to run.
	jobRerun
)

// decideJob says how a Job takes a change. A Job's template cannot change, so a running Job is suspended and resumed: that
// deletes its Pods and starts others, while those that succeeded still count.
func decideJob(job *batchv1.Job, rerun bool) jobAction {
	switch {
	case finished(job) && rerun:
		return jobRerun
	case finished(job):
		return jobNote
	case job.Spec.Suspend != nil && *job.Spec.Suspend:
		return jobNote
	}
	return jobRestart
}

func finished(job *batchv1.Job) bool {
	return jobIs(job, batchv1.JobComplete) || jobIs(job, batchv1.JobFailed)
}

// jobIs reports whether a Job has that condition.
func jobIs(job *batchv1.Job, condition batchv1.JobConditionType) bool {
	for _, c := range job.Status.Conditions {
		if c.Type == condition {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// rollJob has a Job take a change.
func (r *reconciler) rollJob(ctx context.Context, p *pass, next *memory) (done bool, result setpoint.Result, err error) {
	job := p.Object.(*batchv1.Job)
	act := decideJob(job, p.policy.rerun)
	switch act {
	case jobNote:
		next.Rolled = p.before.clone().Rolled
	case jobRestart:
		next.Suspended = true
	case jobRerun:
		if err := r.start(ctx, rerunOf(job, runName(p, next))); err != nil {
			return false, setpoint.Result{}, err
		}
	}
	result, err = r.apply(ctx, p, next, "")
	return act != jobNote && err == nil && !result.Requeue, result, err
}

// resume ends the suspension of a Job once its Pods are gone. They start with what the Job follows now.
func (r *reconciler) resume(ctx context.Context, p *pass) (setpoint.Result, error) {
	job := p.Object.(*batchv1.Job)
	suspended := job.Spec.Suspend != nil && *job.Spec.Suspend
	if suspended && !finished(job) && !(jobIs(job, batchv1.JobSuspended) && job.Status.Active == 0) {
		return setpoint.Result{}, nil // its status will change
	}
	if corrected, err := r.confirm(ctx, p); err != nil {
		return setpoint.Result{}, err
	} else if corrected {
		p.decision = decide(p.before, p.seen, p.policy)
	}
	next := p.next()
	next.Suspended = false
	return r.apply(ctx, p, next, "")
}

// runNow starts a Job of a CronJob that asks for it. It reports false when the CronJob does not allow another one now;
// its status changes when it does.
func (r *reconciler) runNow(ctx context.Context, p *pass, next *memory) (bool, error) {
	cron := p.Object.(*batchv1.CronJob)
	suspended := cron.Spec.Suspend != nil && *cron.Spec.Suspend
	if !p.policy.runNow || suspended {
		return true, nil
	}
	if cron.Spec.ConcurrencyPolicy == batchv1.ForbidConcurrent && len(cron.Status.Active) > 0 {
		return false, nil
	}
	return true, r.start(ctx, runOf(cron, runName(p, next)))
}

// start creates a Job. One of that name was created by an earlier attempt.
func (r *reconciler) start(ctx context.Context, job *batchv1.Job) error {
	if r.options.DryRun {
		return nil
	}
	if err := r.client.Create(ctx, job); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

// runName returns the name of the Job that runs because of a change. It depends on what was remembered before and on what
// is to be remembered now, so that an attempt which is repeated after a crash finds the Job, and a later change makes
// another one.
func runName(p *pass, next *memory) string {
	const hash, limit = 10, 63
	sum := sha256.Sum256([]byte(p.before.String() + next.stamp(p.key, "")))
	name := p.GetName()
	return name[:min(len(name), limit-hash-1)] + "-" + hex.EncodeToString(sum[:])[:hash]
}

// runOf returns a Job of a CronJob, as kubectl create job --from makes it.
func runOf(cron *batchv1.CronJob, name string) *batchv1.Job {
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cron.Namespace, Name: name,
			Labels:          cron.Spec.JobTemplate.Labels,
			Annotations:     map[string]string{"cronjob.kubernetes.io/instantiate": "manual"},
			OwnerReferences: []metav1.OwnerReference{controllerRef(cron, "CronJob")},
		},
		Spec: cron.Spec.JobTemplate.Spec,
	}
	maps.Copy(job.Annotations, cron.Spec.JobTemplate.Annotations)
	return job
}

// rerunOf returns a Job like a finished one, the pattern, which controls it.
func rerunOf(pattern *batchv1.Job, name string) *batchv1.Job {
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pattern.Namespace, Name: name, Labels: withoutJobLabels(pattern.Labels),
			OwnerReferences: []metav1.OwnerReference{controllerRef(pattern, "Job")},
		},
		Spec: *pattern.Spec.DeepCopy(),
	}
	job.Spec.Selector, job.Spec.ManualSelector, job.Spec.Suspend = nil, nil, nil
	job.Spec.Template.Labels = withoutJobLabels(job.Spec.Template.Labels)
	if job.Spec.TTLSecondsAfterFinished == nil {
		job.Spec.TTLSecondsAfterFinished = new(int32(rerunTTL))
	}
	return job
}

// withoutJobLabels leaves out the labels that the server gives to a Job and its Pods.
func withoutJobLabels(labels map[string]string) map[string]string {
	labels = maps.Clone(labels)
	for _, key := range []string{batchv1.JobNameLabel, batchv1.ControllerUidLabel, "job-name", "controller-uid"} {
		delete(labels, key)
	}
	return labels
}

// controllerRef says that a workload of package batch controls another. It does not block the workload's deletion, which
// would take further rights.
func controllerRef(obj client.Object, kind string) metav1.OwnerReference {
	ref := *metav1.NewControllerRef(obj, batchv1.SchemeGroupVersion.WithKind(kind))
	ref.BlockOwnerDeletion = nil
	return ref
}
