package test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/lease"
	"github.com/setpoint-dev/setpoint/operators/reload"
	"github.com/setpoint-dev/setpoint/plane/planetest"
)

// reloadManager returns a manager with the reload operator.
func reloadManager(t *testing.T, p planetest.Cluster, o reload.Options, change ...func(*setpoint.Config)) *setpoint.Manager {
	t.Helper()
	o.Key.Namespace, o.Key.Name = "default", "reload-key"
	c := setpoint.Config{
		REST: p.RESTConfig(), FieldOwner: "setpoint-reload", Kinds: reload.Kinds(o),
		LeaderElection: &lease.Config{Name: "setpoint-reload", Namespace: "default"},
	}
	for _, f := range change {
		f(&c)
	}
	m, err := setpoint.NewManager(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := reload.Setup(m, o); err != nil {
		t.Fatal(err)
	}
	return m
}

func configMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Data:       map[string]string{"value": value},
	}
}

// web returns a Deployment of one Pod, with annotations given as keys and values in turn.
func web(name string, annotations ...string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	d := &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{}},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
			},
		},
	}
	for i := 0; i < len(annotations); i += 2 {
		d.Annotations[annotations[i]] = annotations[i+1]
	}
	return d
}

func remembers(d *appsv1.Deployment) bool { return d.Annotations[reload.State] != "" }

func TestReloadList(t *testing.T) {
	p := newCluster(t)
	user := newUser(t, p.RESTConfig())
	cm := configMap("app", "1")
	d := web("web", reload.ConfigMaps, "app")
	for _, obj := range []planetest.Object{cm, d} {
		if err := user.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	run(t, reloadManager(t, p, reload.Options{Workloads: []string{"Deployment"}}))
	got := planetest.Wait(t, p, d, remembers)
	if stamp := got.Spec.Template.Annotations[reload.Stamp]; stamp != "" {
		t.Errorf("the first sight rolled it: %s", stamp)
	}
	t.Log(got.Annotations[reload.State])
	cm.Data["value"] = "2"
	if err := user.Update(t.Context(), cm); err != nil {
		t.Fatal(err)
	}
	planetest.Wait(t, p, d, func(d *appsv1.Deployment) bool {
		return d.Spec.Template.Annotations[reload.Stamp] != "" && d.Status.ObservedGeneration == d.Generation && d.Status.UpdatedReplicas == 1 && d.Status.Replicas == 1
	})
}
