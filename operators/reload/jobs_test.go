package reload

import (
	"flag"
	"io"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

func parseFlags(t *testing.T, o *Options, args ...string) {
	t.Helper()
	flags := flag.NewFlagSet("reload", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	o.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
}

func jobWith(conditions ...batchv1.JobConditionType) *batchv1.Job {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "job", UID: "job-uid"}}
	for _, c := range conditions {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: c, Status: corev1.ConditionTrue})
	}
	return job
}

func TestDecideJob(t *testing.T) {
	suspended := jobWith(batchv1.JobSuspended)
	suspended.Spec.Suspend = new(true)
	for _, test := range []struct {
		why   string
		job   *batchv1.Job
		rerun bool
		want  jobAction
	}{
		{"it runs", jobWith(), false, jobRestart},
		{"it is complete", jobWith(batchv1.JobComplete), false, jobNote},
		{"it failed", jobWith(batchv1.JobFailed), false, jobNote},
		{"it is complete, and to run again", jobWith(batchv1.JobComplete), true, jobRerun},
		{"it runs, and would run again", jobWith(), true, jobRestart},
		{"somebody suspended it", suspended, true, jobNote},
	} {
		if got := decideJob(test.job, test.rerun); got != test.want {
			t.Errorf("%s: got %d, want %d", test.why, got, test.want)
		}
	}
}

func TestRunNames(t *testing.T) {
	job := jobWith()
	job.Name = strings.Repeat("j", 63)
	before := &memory{Key: "k", Sources: map[source]entry{cm("a"): {hash: "1"}}}
	next := &memory{Key: "k", Sources: map[source]entry{cm("a"): {hash: "2"}}}
	p := &pass{workload: &workload{Object: job}, key: testKey, before: before}
	name := runName(p, next)
	if errs := validation.IsDNS1123Label(name); len(errs) > 0 {
		t.Errorf("%s: %v", name, errs)
	}
	if runName(p, next) != name {
		t.Error("a repeated attempt makes another Job")
	}
	back := &pass{workload: p.workload, key: testKey, before: &memory{Key: "k", Rolled: &metav1.Time{}, Sources: before.Sources}}
	if runName(back, next) == name {
		t.Error("the same change at a later time makes no other Job")
	}
}

func TestRerun(t *testing.T) {
	job := jobWith(batchv1.JobComplete)
	job.Labels = map[string]string{"app": "job", batchv1.JobNameLabel: "job"}
	job.Annotations = map[string]string{Auto: "true"}
	job.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{batchv1.ControllerUidLabel: "job-uid"}}
	job.Spec.Template.Labels = map[string]string{"app": "job", batchv1.ControllerUidLabel: "job-uid", "controller-uid": "job-uid"}
	again := rerunOf(job, "job-1")
	if again.Spec.Selector != nil || len(again.Spec.Template.Labels) != 1 || len(again.Labels) != 1 || len(again.Annotations) != 0 {
		t.Errorf("the copy has what the server gave to the first: %+v", again)
	}
	if !metav1.IsControlledBy(again, job) || *again.Spec.TTLSecondsAfterFinished != rerunTTL {
		t.Errorf("the copy is nobody's, or stays for ever: %+v", again)
	}
	if len(job.Spec.Template.Labels) != 3 || job.Spec.Selector == nil {
		t.Error("the Job itself was changed")
	}
}
