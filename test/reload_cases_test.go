package test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/operators/reload"
	"github.com/setpoint-dev/setpoint/plane"
	"github.com/setpoint-dev/setpoint/plane/planetest"
)

// writes returns the log's requests since the last call that change something, but not those for leases and Events.
func (l *requestLog) writes() (lines []string) {
	for _, line := range l.take() {
		verb, path, _ := strings.Cut(line, " ")
		if verb != http.MethodGet && verb != "WATCH" && !strings.Contains(path, "/leases") && !strings.Contains(path, "/events") {
			lines = append(lines, line)
		}
	}
	return lines
}

// isPatchOf reports whether a request is a patch of an object of that resource and name; an empty name is any.
func isPatchOf(r *http.Request, resource, name string) bool {
	return r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/"+resource+"/"+name)
}

// answersLost loses the answer to the first patch of each resource, which the server has carried out.
func answersLost() func(http.RoundTripper) http.RoundTripper {
	var lost sync.Map
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			resource := r.URL.Path[:strings.LastIndex(r.URL.Path, "/")]
			response, err := next.RoundTrip(r)
			if r.Method == http.MethodPatch && !strings.Contains(resource, "/events") {
				if _, again := lost.LoadOrStore(resource, true); !again {
					if err == nil {
						response.Body.Close()
					}
					return nil, errors.New("the test has lost the answer")
				}
			}
			return response, err
		})
	}
}

// workloads returns one of each kind that follows the ConfigMap app by name, its Pods running until they are stopped.
func workloads() (all []client.Object, set *appsv1.StatefulSet, daemon *appsv1.DaemonSet, cron *batchv1.CronJob, job *batchv1.Job) {
	meta := func(name string, more ...string) metav1.ObjectMeta {
		m := metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{reload.ConfigMaps: "app"}}
		for _, key := range more {
			m.Annotations[key] = "true"
		}
		return m
	}
	template := func(name string) corev1.PodTemplateSpec {
		p := reader(name)
		p.Annotations = map[string]string{"node.setpoint.dev/run": "never"}
		return p
	}
	selector := func(name string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	}
	set = &appsv1.StatefulSet{ObjectMeta: meta("set"), Spec: appsv1.StatefulSetSpec{Selector: selector("set"), Template: template("set")}}
	daemon = &appsv1.DaemonSet{ObjectMeta: meta("daemon"), Spec: appsv1.DaemonSetSpec{Selector: selector("daemon"), Template: template("daemon")}}
	ends := template("job")
	ends.Spec.RestartPolicy = corev1.RestartPolicyNever
	cron = &batchv1.CronJob{ObjectMeta: meta("cron", reload.RunNow), Spec: batchv1.CronJobSpec{
		Schedule: "0 0 29 2 *", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: ends}}}}
	job = &batchv1.Job{ObjectMeta: meta("job"), Spec: batchv1.JobSpec{Template: ends}}
	return []client.Object{set, daemon, cron, job}, set, daemon, cron, job
}

func rollout(name string, annotations ...string) *unstructured.Unstructured {
	d := web(name, annotations...)
	template, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&d.Spec.Template)
	if err != nil {
		panic(err)
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "spec": map[string]any{"template": template},
	}}
	u.SetNamespace(d.Namespace)
	u.SetName(name)
	u.SetAnnotations(d.Annotations)
	return u
}

// stampOf returns the stamp of a workload whose template is where most have it.
func stampOf(u *unstructured.Unstructured) string {
	stamp, _, _ := unstructured.NestedString(u.Object, "spec", "template", "metadata", "annotations", reload.Stamp)
	return stamp
}

// allKinds has one workload of each kind rolled for the ConfigMap app, some of them while Argo Rollouts are not installed.
func allKinds(r *reloads) {
	r.create(configMap("app", "1"))
	all, set, daemon, cron, job := workloads()
	r.create(all...)
	jobs := planetest.Wait(r, r.p, job, func(j *batchv1.Job) bool { return j.Status.Active == 1 })
	r.remembered(all...)

	planetest.Apply(r, r.p, "testdata/rollouts.yaml")
	stamped, restarted := rollout("stamped", reload.ConfigMaps, "app"), rollout("restarted", reload.ConfigMaps, "app", reload.RolloutStrategy, "restart")
	r.create(stamped, restarted)
	r.remembered(stamped, restarted)

	// Again and again: what a change leads to does not depend on what went before.
	for i := range 2 {
		set = planetest.Wait(r, r.p, set, exists)
		daemon = planetest.Wait(r, r.p, daemon, exists)
		stamped = planetest.Wait(r, r.p, stamped, exists)
		restarted = planetest.Wait(r, r.p, restarted, exists)
		time.Sleep(2 * time.Second) // spec.restartAt has full seconds
		r.set("app", fmt.Sprint(i))
		planetest.Wait(r, r.p, set, func(s *appsv1.StatefulSet) bool {
			return s.Spec.Template.Annotations[reload.Stamp] != set.Spec.Template.Annotations[reload.Stamp] && s.Status.UpdatedReplicas == 1
		})
		planetest.Wait(r, r.p, daemon, func(d *appsv1.DaemonSet) bool {
			return d.Spec.Template.Annotations[reload.Stamp] != daemon.Spec.Template.Annotations[reload.Stamp] && d.Status.UpdatedNumberScheduled == 1
		})
		planetest.Wait(r, r.p, stamped, func(u *unstructured.Unstructured) bool { return stampOf(u) != stampOf(stamped) })
		planetest.Wait(r, r.p, restarted, func(u *unstructured.Unstructured) bool {
			return restartAt(u) != restartAt(restarted) && stampOf(u) == ""
		})
		// A running Job starts anew; of a CronJob one runs at once, beside those of before.
		jobs = planetest.Wait(r, r.p, job, func(j *batchv1.Job) bool {
			return j.Status.StartTime != nil && j.Status.StartTime.After(jobs.Status.StartTime.Time) && j.Status.Active == 1 && !*j.Spec.Suspend
		})
		planetest.Wait(r, r.p, cron, func(c *batchv1.CronJob) bool { return runsOf(r, c) == i+1 })
	}
}

// runsOf returns how many Jobs a CronJob controls.
func runsOf(r *reloads, cron *batchv1.CronJob) (n int) {
	var jobs batchv1.JobList
	if err := r.user.List(r.Context(), &jobs, client.InNamespace(cron.Namespace)); err != nil {
		r.Fatal(err)
	}
	for i := range jobs.Items {
		if metav1.IsControlledBy(&jobs.Items[i], cron) {
			n++
		}
	}
	return n
}

func restartAt(u *unstructured.Unstructured) string {
	at, _, _ := unstructured.NestedString(u.Object, "spec", "restartAt")
	return at
}

// In Reloader a kind that fails stops those after it in its list.
func TestReloaderEachKindIsOnItsOwn(t *testing.T) {
	inReloads(t, func(r *reloads) {
		r.start("only", reload.Options{})
		allKinds(r)
	})
}

// TestReloadRole: the operator can do all of its work with the rights of its manifest, and needs each of them.
func TestReloadRole(t *testing.T) {
	eachRuleNeeded(t, plane.Config{}, reload.RBAC(), func(t testing.TB, p planetest.Cluster, operator *rest.Config) {
		r := newReloads(t, p)
		operator.Wrap(answersLost()) // so that what was written is asked for
		d := web("web", reload.Auto, "true")
		r.create(configMap("web", "1"), secret("web", "1"), d)
		begin(t, r.manager("only", operator, reload.Options{}))
		r.remembered(d)
		allKinds(r)
		r.patch(secret("web", ""), `{"stringData":{"value":"2"}}`)
		r.rolled(d, 2)
		r.set("web", "2")
		r.rolled(d, 3)
		r.set("web", "3")
		r.rolled(d, 4)
		awaitEvent(t, p, func(e *eventsv1.Event) bool {
			return e.Reason == "Reloaded" && e.Regarding.Name == "web" && e.Series != nil
		})
	})
}

func TestReloadFault3NothingIsWrittenForNothing(t *testing.T) {
	inReloads(t, func(r *reloads) {
		d := web("web", reload.Auto, "true")
		r.create(configMap("web", "1"), d)
		r.rolled(d, 1)
		sent := &requestLog{}
		r.start("only", reload.Options{}, sent.wrap)
		r.remembered(d)
		r.stays(d, 1, "the first sight")
		if lines := sent.writes(); len(lines) != 2 { // the key, and the baseline
			r.Errorf("at first it wrote\n%s", strings.Join(lines, "\n"))
		}
		r.annotate(configMap("web", ""), "example.com/touched", "true")
		r.annotate(d, "example.com/touched", "true")
		r.set("web", "1")
		r.patch(configMap("web", ""), `{"metadata":{"labels":{"a":"b"}},"immutable":true}`)
		r.create(configMap("nobodys", "1"))
		r.set("nobodys", "2")
		r.stays(d, 1, "changes that matter to nobody")
		if lines := sent.writes(); len(lines) != 0 {
			r.Errorf("it wrote\n%s", strings.Join(lines, "\n"))
		}
	})
}

// One workload cannot be written for longer than the five attempts after which Reloader gives up, and another conflicts.
func TestReloadFault4OneFailureStopsNothing(t *testing.T) {
	inReloads(t, func(r *reloads) {
		bad, good := web("bad", reload.ConfigMaps, "app"), web("good", reload.ConfigMaps, "app")
		r.create(configMap("app", "1"), bad, good)
		var broken atomic.Bool
		var attempts atomic.Int32
		r.start("only", reload.Options{}, func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(req *http.Request) (*http.Response, error) {
				if broken.Load() && isPatchOf(req, "deployments", "bad") {
					attempts.Add(1)
					return nil, errors.New("the test does not let it through")
				}
				return next.RoundTrip(req)
			})
		})
		r.remembered(bad, good)
		broken.Store(true)
		r.set("app", "2")
		r.rolled(good, 2)
		r.stays(bad, 1, "it cannot be written")
		if n := attempts.Load(); n < 7 {
			r.Errorf("it was tried %d times in a minute", n)
		}
		broken.Store(false)
		r.rolled(bad, 2)
		r.stays(good, 2, "it rolled before")
	})
}

// In the words of other reports of it: #767, #878, #1015.
func TestReloader627GitOpsSeesNoDrift(t *testing.T) {
	inReloads(t, func(r *reloads) {
		argo, err := client.New(client.Config{REST: r.p.RESTConfig(), FieldOwner: "argocd"})
		if err != nil {
			r.Fatal(err)
		}
		applied := func() *appsv1.Deployment {
			d := web("web", reload.Auto, "true")
			if err := argo.Apply(r.Context(), d, client.ForceOwnership); err != nil {
				r.Fatal(err)
			}
			return d
		}
		r.create(configMap("web", "1"))
		d := applied()
		sent := &requestLog{}
		r.start("only", reload.Options{}, sent.wrap)
		r.remembered(d)
		r.set("web", "2")
		before := r.stays(r.rolled(d, 2), 2, "one change")
		sent.take()
		for range 3 {
			if after := applied(); after.ResourceVersion != before.ResourceVersion || after.Spec.Template.Annotations[reload.Stamp] == "" {
				r.Error("to apply the same again changed something: a tool that compares would see drift")
			}
		}
		r.stays(d, 2, "applied again")
		if lines := sent.writes(); len(lines) != 0 {
			r.Errorf("the operator answered\n%s", strings.Join(lines, "\n"))
		}
		live := planetest.Wait(r, r.p, d, exists)
		for _, m := range live.ManagedFields {
			if m.Manager == "setpoint-reload" {
				want := fmt.Sprintf(`{"f:metadata":{"f:annotations":{"f:%s":{}}},"f:spec":{"f:template":{"f:metadata":{"f:annotations":{"f:%s":{}}}}}}`,
					reload.State, reload.Stamp)
				if got := string(m.FieldsV1.GetRawBytes()); got != want {
					r.Errorf("the operator owns\n%s, want\n%s", got, want)
				}
			}
		}
	})
}

// The restart strategy has no template to see whether a restart is still due.
func TestReloader1144RestartStrategyOutlivesFailOver(t *testing.T) {
	inReloads(t, func(r *reloads) {
		planetest.Apply(r, r.p, "testdata/rollouts.yaml")
		u := rollout("web", "reloader.stakater.com/auto", "true", "reloader.stakater.com/rollout-strategy", "restart")
		r.create(configMap("web", "1"), u)
		stop := r.start("first", reload.Options{})
		r.remembered(u)
		stop()
		r.set("web", "2")
		stop = r.start("second", reload.Options{})
		first := planetest.Wait(r, r.p, u, func(u *unstructured.Unstructured) bool { return restartAt(u) != "" })
		stop()
		r.start("third", reload.Options{})
		time.Sleep(time.Minute)
		if now := planetest.Wait(r, r.p, u, exists); restartAt(now) != restartAt(first) || stampOf(now) != "" {
			r.Errorf("restarted at %s, and at %s once more", restartAt(first), restartAt(now))
		}
	})
}

// What somebody else asks for later is not taken back by a write that is about something else.
func TestReloadLeavesRestartsOfOthers(t *testing.T) {
	inReloads(t, func(r *reloads) {
		planetest.Apply(r, r.p, "testdata/rollouts.yaml")
		u := rollout("web", reload.ConfigMaps, "conf-.+", reload.RolloutStrategy, "restart")
		r.create(configMap("conf-1", "1"), u)
		r.start("only", reload.Options{})
		r.remembered(u)
		r.set("conf-1", "2")
		ours := planetest.Wait(r, r.p, u, func(u *unstructured.Unstructured) bool { return restartAt(u) != "" })
		const theirs = "2000-01-02T00:00:00Z"
		r.patch(u, `{"spec":{"restartAt":%q}}`, theirs)
		r.create(configMap("conf-2", "1"))
		now := planetest.Wait(r, r.p, u, func(u *unstructured.Unstructured) bool {
			return strings.Contains(u.GetAnnotations()[reload.State], "conf-2")
		})
		if restartAt(now) != theirs {
			r.Errorf("restartAt is %s again, %s of before", restartAt(now), restartAt(ours))
		}
		r.set("conf-2", "2")
		planetest.Wait(r, r.p, u, func(u *unstructured.Unstructured) bool { return restartAt(u) != theirs })
	})
}

func TestReloader701EveryUserRolls(t *testing.T) {
	inReloads(t, func(r *reloads) {
		r.create(configMap("app", "1"))
		var users []*appsv1.Deployment
		for i := range 20 {
			d := web(fmt.Sprintf("web-%02d", i), reload.ConfigMaps, "other, ap+")
			d.Spec.Replicas = new(int32(1))
			users = append(users, d)
			r.create(d)
		}
		r.start("only", reload.Options{})
		for _, d := range users {
			r.remembered(d)
		}
		r.set("app", "2")
		for _, d := range users {
			r.rolled(d, 2)
		}
		r.allStay(users, 2, "one change")
	})
}

func TestReloadSelection(t *testing.T) {
	inReloads(t, func(r *reloads) {
		r.start("only", reload.Options{})
		search := web("search", reload.Search, "true")
		expressions := web("expressions", "configmap.reloader.stakater.com/reload", "conf-.*", "secret.reloader.stakater.com/reload", "sec(ret)?",
			"configmaps.exclude.reloader.stakater.com/reload", "conf-tmp")
		onTemplate := web("template")
		onTemplate.Spec.Template.Annotations = map[string]string{"configmap.fabric8.io/update-on-change": "a, conf-1"}
		all := []*appsv1.Deployment{search, expressions, onTemplate}
		r.create(configMap("search", "1"), secret("search", "1"), configMap("conf-1", "1"), configMap("conf-tmp", "1"), secret("sec", "1"), search, expressions, onTemplate)
		r.annotate(configMap("search", ""), reload.Match, "true")
		for _, d := range all {
			r.remembered(d)
		}
		r.set("conf-tmp", "2")
		r.patch(secret("search", ""), `{"stringData":{"value":"2"}}`)
		r.create(configMap("conf-2", "1"))
		r.allStay(all, 1, "nothing that it follows changed")
		r.set("search", "2")
		r.set("conf-1", "2")
		for _, d := range all {
			r.rolled(d, 2)
		}
		r.patch(secret("sec", ""), `{"stringData":{"value":"2"}}`)
		r.rolled(expressions, 3)
		r.set("conf-2", "2")
		r.rolled(expressions, 4)
		// Ignored, and no more: what changed meanwhile is not made up for.
		r.annotate(configMap("conf-1", ""), reload.Ignore, "true")
		r.set("conf-1", "3")
		r.stays(onTemplate, 2, "the source is to be ignored")
		r.annotate(configMap("conf-1", ""), reload.Ignore, "")
		r.stays(onTemplate, 2, "the source is followed again")
		r.set("conf-1", "4")
		r.rolled(onTemplate, 3)
		// What makes no sense is said, and harms nothing else.
		r.annotate(onTemplate, reload.ConfigMaps, "conf-(, conf-2")
		awaitEvent(r, r.p, func(e *eventsv1.Event) bool {
			return e.Reason == "InvalidReload" && e.Regarding.Name == "template" && strings.Contains(e.Note, `"conf-("`)
		})
		planetest.Wait(r, r.p, onTemplate, func(d *appsv1.Deployment) bool { return strings.Contains(d.Annotations[reload.State], "conf-2") })
		r.set("conf-2", "3")
		r.rolled(onTemplate, 4)
	})
}

func TestReloadChangesMergeInAWindow(t *testing.T) {
	inReloads(t, func(r *reloads) {
		d := web("web", reload.ConfigMaps, "a, b, c", reload.Window, "10s", reload.PausePeriod, "5m")
		r.create(configMap("a", "1"), configMap("b", "1"), configMap("c", "1"), d)
		r.start("only", reload.Options{})
		r.remembered(d)
		for _, name := range []string{"a", "b", "c"} {
			r.set(name, "2")
			time.Sleep(3 * time.Second)
		}
		r.stays(d, 2, "three changes in ten seconds")
		r.set("a", "3")
		r.stays(d, 2, "the next change, within the pause")
		r.set("b", "3")
		r.stays(d, 2, "one more within the pause")
		time.Sleep(3 * time.Minute)
		r.stays(d, 3, "the pause is over")
	})
}

func TestReloadDryRun(t *testing.T) {
	inReloads(t, func(r *reloads) {
		d := web("web", reload.Auto, "true")
		r.create(configMap("web", "1"), d)
		sent := &requestLog{}
		r.start("only", reload.Options{DryRun: true}, sent.wrap)
		r.stays(d, 1, "the first sight")
		r.set("web", "2")
		awaitEvent(r, r.p, func(e *eventsv1.Event) bool {
			return e.Reason == "WouldReload" && strings.Contains(e.Note, "ConfigMap web was changed")
		})
		r.stays(d, 1, "a dry run")
		if lines := sent.writes(); len(lines) != 0 {
			r.Errorf("it wrote\n%s", strings.Join(lines, "\n"))
		}
	})
}

// kubectl rollout undo brings back the template and the annotations of an older ReplicaSet. Its Pods are new, so there is
// nothing to roll for.
func TestReloadUndoneRolloutIsNotRepeated(t *testing.T) {
	inReloads(t, func(r *reloads) {
		d := web("web", reload.Auto, "true")
		r.create(configMap("web", "1"), d)
		r.start("only", reload.Options{})
		r.remembered(d)
		first := r.stays(d, 1, "the first sight")
		r.set("web", "2")
		r.rolled(d, 2)
		r.annotate(d, reload.State, first.Annotations[reload.State])
		r.patch(d, `{"spec":{"template":{"metadata":{"annotations":null}}}}`)
		r.stays(d, 3, "it was rolled back by somebody else")
		r.set("web", "3")
		r.rolled(d, 4)
	})
}

// The process dies after the server has carried out the roll and before it hears of it.
func TestReloadCrashAfterTheRoll(t *testing.T) {
	inReloads(t, func(r *reloads) {
		d := web("web", reload.Auto, "true")
		r.create(configMap("web", "1"), d)
		var armed atomic.Bool
		var way switched
		r.start("first", reload.Options{}, way.wrap, func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(req *http.Request) (*http.Response, error) {
				response, err := next.RoundTrip(req)
				if armed.Load() && isPatchOf(req, "deployments", "web") {
					way.cut.Store(true)
					if err == nil {
						response.Body.Close()
					}
					return nil, errors.New("the test has cut the way back")
				}
				return response, err
			})
		})
		r.remembered(d)
		r.start("second", reload.Options{})
		armed.Store(true)
		r.set("web", "2")
		r.rolled(d, 2)
		r.awaitLeader("second")
		r.stays(d, 2, "another replica leads")
		r.set("web", "3")
		r.rolled(d, 3)
	})
}

func TestReloadNamespacesAndLabels(t *testing.T) {
	inReloads(t, func(r *reloads) {
		elsewhere := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}}
		inside, outside, unlabelled := web("inside", reload.ConfigMaps, "app"), web("outside", reload.ConfigMaps, "app"), web("unlabelled", reload.ConfigMaps, "app")
		outside.Namespace = "elsewhere"
		labels := map[string]string{"reload": "yes"}
		inside.Labels, outside.Labels = labels, maps.Clone(labels)
		there := configMap("app", "1")
		there.Namespace = "elsewhere"
		r.create(elsewhere, configMap("app", "1"), there, inside, outside, unlabelled)
		var o reload.Options
		flags := newFlagSet(&o)
		if err := flags.Parse([]string{"-namespaces=default", "-workload-selector=reload=yes"}); err != nil {
			r.Fatal(err)
		}
		sent := &requestLog{}
		r.start("only", o, sent.wrap)
		r.remembered(inside)
		r.set("app", "2")
		r.patch(there, `{"data":{"value":"2"}}`)
		r.rolled(inside, 2)
		r.stays(outside, 1, "it is outside")
		r.stays(unlabelled, 1, "it has no such label")
		if slices.ContainsFunc(sent.take(), func(line string) bool {
			return strings.Contains(line, "/elsewhere/") || line == "WATCH /api/v1/secrets"
		}) {
			r.Error("it asked for what is outside")
		}
	})
}

// A Job whose Pods have ended is not run again unless that is asked for; then a copy of it runs.
func TestReloadFinishedJobs(t *testing.T) {
	inReloads(t, func(r *reloads) {
		r.create(configMap("app", "1"))
		_, _, _, cron, job := workloads()
		again := job.DeepCopy()
		again.Name = "again"
		again.Annotations[reload.Rerun] = "true"
		cron.Annotations = map[string]string{reload.ConfigMaps: "app"}
		for _, j := range []*batchv1.Job{job, again} {
			j.Spec.Template.Annotations = nil // they end at once
			r.create(j)
			planetest.Wait(r, r.p, j, func(j *batchv1.Job) bool { return j.Status.Succeeded == 1 })
		}
		r.create(cron)
		r.start("only", reload.Options{})
		r.remembered(job, again, cron)
		r.set("app", "2")
		awaitEvent(r, r.p, func(e *eventsv1.Event) bool { return e.Reason == "Reloaded" && e.Regarding.Name == "again" })
		time.Sleep(time.Minute)
		r.set("app", "3")
		time.Sleep(time.Minute)
		var jobs batchv1.JobList
		if err := r.user.List(r.Context(), &jobs, client.InNamespace("default")); err != nil {
			r.Fatal(err)
		}
		runs := map[string]int{}
		for i := range jobs.Items {
			j := &jobs.Items[i]
			if ref := metav1.GetControllerOf(j); ref != nil {
				runs[ref.Name]++
			}
			if j.Status.Succeeded != 1 {
				r.Errorf("Job %s has not succeeded: %+v", j.Name, j.Status)
			}
		}
		if !maps.Equal(runs, map[string]int{"again": 2}) || len(jobs.Items) != 4 {
			r.Errorf("ran again: %v, %d Jobs in all", runs, len(jobs.Items))
		}
	})
}

// What changes while a workload is paused rolls it once when that ends.
func TestReloadPausedWorkload(t *testing.T) {
	inReloads(t, func(r *reloads) {
		d := web("web", reload.Auto, "true")
		r.create(configMap("web", "1"), d)
		r.start("only", reload.Options{})
		r.remembered(d)
		r.annotate(d, setpoint.PausedAnnotation, "true")
		r.set("web", "2")
		r.stays(d, 1, "it is paused")
		r.set("web", "3")
		r.annotate(d, setpoint.PausedAnnotation, "")
		r.rolled(d, 2)
		r.stays(d, 2, "two changes while it was paused")
	})
}
