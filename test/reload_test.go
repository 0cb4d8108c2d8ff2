package test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/lease"
	"github.com/setpoint-dev/setpoint/operators/reload"
	"github.com/setpoint-dev/setpoint/plane/planetest"
)

// reloads is a cluster in which workloads are rolled, and a user of it.
type reloads struct {
	testing.TB
	p    planetest.Cluster
	user *client.Client
}

func newReloads(t testing.TB, p planetest.Cluster) *reloads {
	t.Helper()
	user, err := client.New(client.Config{REST: p.RESTConfig(), FieldOwner: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return &reloads{TB: t, p: p, user: user}
}

// inReloads runs a test on a plane of its own, in virtual time.
func inReloads(t *testing.T, test func(r *reloads)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := planetest.New(t)
		planetest.Apply(t, p, "../operators/reload/manifests/rbac.yaml") // for the namespace
		test(newReloads(t, p))
	})
}

// start runs the operator with those options, under that name and through those wrappers, and stops it gracefully when it
// is told to or the test ends.
func (r *reloads) start(name string, o reload.Options, wraps ...func(http.RoundTripper) http.RoundTripper) (stop func()) {
	r.Helper()
	config := r.p.RESTConfig()
	for _, wrap := range wraps {
		config.Wrap(wrap)
	}
	return begin(r, r.manager(name, config, o))
}

func (r *reloads) manager(name string, config *rest.Config, o reload.Options) *setpoint.Manager {
	r.Helper()
	m, err := setpoint.NewManager(setpoint.Config{
		REST: config, FieldOwner: "setpoint-reload", Kinds: reload.Kinds(o), Seed: 1,
		LeaderElection: &lease.Config{Namespace: "setpoint-system", Name: "setpoint-reload", Identity: name},
	})
	if err != nil {
		r.Fatal(err)
	}
	if err := reload.Setup(m, o); err != nil {
		r.Fatal(err)
	}
	return m
}

// awaitLeader waits until the replica of that name leads.
func (r *reloads) awaitLeader(name string) {
	r.Helper()
	awaitLeader(r, r.p, "setpoint-reload", name)
}

func (r *reloads) create(objects ...client.Object) {
	r.Helper()
	for _, obj := range objects {
		if err := r.user.Create(r.Context(), obj); err != nil {
			r.Fatal(err)
		}
	}
}

// patch changes an object by a JSON merge patch.
func (r *reloads) patch(obj client.Object, format string, args ...any) {
	r.Helper()
	// The object that is passed is set to the answer; what the test holds stays as it is.
	copied := obj.DeepCopyObject().(client.Object)
	if err := r.user.Patch(r.Context(), copied, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, format, args...))); err != nil {
		r.Fatal(err)
	}
}

// set changes the content of a ConfigMap.
func (r *reloads) set(name, value string) {
	r.Helper()
	r.patch(configMap(name, ""), `{"data":{"value":%q}}`, value)
}

// annotate sets an annotation, or removes it when the value is empty.
func (r *reloads) annotate(obj client.Object, name, value string) {
	r.Helper()
	text := strconv.Quote(value)
	if value == "" {
		text = "null"
	}
	r.patch(obj, `{"metadata":{"annotations":{%q:%s}}}`, name, text)
}

// remembered waits until the operator remembers something on a workload.
func (r *reloads) remembered(objects ...client.Object) {
	r.Helper()
	for _, obj := range objects {
		planetest.Wait(r, r.p, obj, func(o client.Object) bool { return o.GetAnnotations()[reload.State] != "" })
	}
}

// revision returns how many templates a Deployment has had: one more than how often it rolled.
func revision(d *appsv1.Deployment) int {
	n, _ := strconv.Atoi(d.Annotations["deployment.kubernetes.io/revision"])
	return n
}

// rolled waits until a Deployment has had so many templates, and runs the last one.
func (r *reloads) rolled(d *appsv1.Deployment, revisions int) *appsv1.Deployment {
	r.Helper()
	return planetest.Wait(r, r.p, d, func(d *appsv1.Deployment) bool {
		want, s := *d.Spec.Replicas, d.Status
		return revision(d) >= revisions && s.ObservedGeneration == d.Generation && s.UpdatedReplicas == want && s.Replicas == want && s.AvailableReplicas == want
	})
}

// stays waits for a minute, and checks that a Deployment has had so many templates then, for the reason given.
func (r *reloads) stays(d *appsv1.Deployment, revisions int, why string) *appsv1.Deployment {
	r.Helper()
	r.allStay([]*appsv1.Deployment{d}, revisions, why)
	return planetest.Wait(r, r.p, d, exists[*appsv1.Deployment])
}

// allStay is stays for several Deployments at once.
func (r *reloads) allStay(all []*appsv1.Deployment, revisions int, why string) {
	r.Helper()
	time.Sleep(time.Minute)
	for _, d := range all {
		if now := planetest.Wait(r, r.p, d, exists[*appsv1.Deployment]); revision(now) != revisions {
			r.Errorf("%s: Deployment %s has had %d templates, want %d", why, d.Name, revision(now), revisions)
		}
	}
}

func configMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Data:       map[string]string{"value": value},
	}
}

func secret(name, value string) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		StringData: map[string]string{"value": value},
	}
}

// reader returns the template of Pods that have the ConfigMap in their environment and the Secret in a volume, both of that
// name.
func reader(name string) corev1.PodTemplateSpec {
	local := corev1.LocalObjectReference{Name: name}
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "main", Image: "main:1",
				EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: local, Optional: new(true)}}},
			}},
			Volumes: []corev1.Volume{{Name: "secret", VolumeSource: corev1.VolumeSource{
				Secret: &corev1.SecretVolumeSource{SecretName: name, Optional: new(true)}}}},
		},
	}
}

// web returns a Deployment of two readers, with annotations given as keys and values in turn.
func web(name string, annotations ...string) *appsv1.Deployment {
	template := reader(name)
	d := &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{}},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(2)), Template: template,
			Selector: &metav1.LabelSelector{MatchLabels: template.Labels},
		},
	}
	for i := 0; i < len(annotations); i += 2 {
		d.Annotations[annotations[i]] = annotations[i+1]
	}
	return d
}

// TestReload is the life of a Deployment, with an operator of two replicas that come and go. Its minutes are virtual ones.
func TestReload(t *testing.T) {
	inReloads(t, func(r *reloads) {
		// Create it: what is there is the baseline, and nothing rolls.
		d := web("web", reload.Auto, "true")
		r.create(configMap("web", "1"), secret("web", "1"), d)
		r.rolled(d, 1)
		stop := r.start("first", reload.Options{})
		r.remembered(d)
		r.stays(d, 1, "the first sight")

		// Change what it uses.
		r.set("web", "2")
		now := r.rolled(d, 2)
		if now.Spec.Template.Annotations[reload.Stamp] == "" {
			r.Errorf("somebody else rolled it: %v", now.Spec.Template.Annotations)
		}
		r.patch(secret("web", ""), `{"stringData":{"value":"2"}}`)
		r.rolled(d, 3)
		awaitEvent(r, r.p, func(e *eventsv1.Event) bool {
			return e.Regarding.UID == now.UID && e.Reason == "Reloaded" && e.Note == "Rolled, since Secret web was changed"
		})
		r.stays(d, 3, "each change once")

		// Drift: what the operator remembers comes back, and a template without its stamp is let be.
		r.annotate(d, reload.State, "")
		r.remembered(d)
		r.patch(d, `{"spec":{"template":{"metadata":{"annotations":null}}}}`)
		now = r.stays(d, 4, "somebody else took the stamp away, which rolled it")
		if now.Spec.Template.Annotations[reload.Stamp] != "" {
			r.Error("the stamp came back without a change")
		}

		// A leader that is stopped between the change and the roll, and another one.
		r.start("second", reload.Options{})
		r.set("web", "3")
		stop()
		r.rolled(d, 5)
		r.awaitLeader("second")
		r.stays(d, 5, "a change while the leader changed")

		// It follows nothing any more.
		r.annotate(d, reload.Auto, "")
		planetest.Wait(r, r.p, d, func(d *appsv1.Deployment) bool { return d.Annotations[reload.State] == "" })
		r.set("web", "4")
		r.stays(d, 5, "it opted out")

		// Delete it: nothing is left.
		if err := r.user.Delete(r.Context(), d); err != nil {
			r.Fatal(err)
		}
		planetest.WaitGone(r, r.p, d)
		time.Sleep(time.Minute)
		var pods corev1.PodList
		if err := r.user.List(r.Context(), &pods); err != nil || len(pods.Items) > 0 {
			r.Errorf("%d Pods are left, %v", len(pods.Items), err)
		}
	})
}
