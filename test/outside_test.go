package test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/plane/planetest"
)

// startWebsites runs the operator against p until the test ends, and returns a client of the test's own.
func startWebsites(t *testing.T, p planetest.Cluster, records *dns) *client.Client {
	t.Helper()
	scheme, err := websiteScheme()
	if err != nil {
		t.Fatal(err)
	}
	m, err := setpoint.NewManager(setpoint.Config{REST: p.RESTConfig(), Scheme: scheme, FieldOwner: "website-operator"})
	if err != nil {
		t.Fatal(err)
	}
	addWebsites(m, records)
	begin(t, m)
	user, err := client.New(client.Config{REST: p.RESTConfig(), Scheme: scheme, FieldOwner: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return user
}

func TestWebsite(t *testing.T) {
	p := newCluster(t)
	planetest.Apply(t, p, "testdata/websites.yaml")
	records := &dns{records: map[string]bool{}}
	user := startWebsites(t, p, records)
	ctx := t.Context()

	// Create it: the Deployment appears, becomes ready, and the status says so.
	site := &Website{
		TypeMeta:   metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "Website"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blog"},
		Spec:       WebsiteSpec{Host: "blog.example.com", Replicas: 2},
	}
	if err := user.Create(ctx, site); err != nil {
		t.Fatal(err)
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blog"}}
	child := planetest.Wait(t, p, deployment, func(d *appsv1.Deployment) bool { return d.Status.ReadyReplicas == 2 })
	site = planetest.Wait(t, p, site, func(w *Website) bool { return w.Status.Ready == 2 })
	if !records.has("blog.example.com") {
		t.Error("the site is served, but has no DNS record")
	}

	// Change what is asked for: the Deployment follows.
	before := *site
	site.Spec.Replicas = 3
	if err := user.Patch(ctx, site, client.MergeFrom(&before)); err != nil {
		t.Fatal(err)
	}
	site = planetest.Wait(t, p, site, func(w *Website) bool { return w.Status.ObservedGeneration == 2 && w.Status.Ready == 3 })

	// Change the Deployment by hand: it heals, and what the operator says nothing about stays.
	byHand := client.RawPatch("application/merge-patch+json", []byte(
		`{"metadata":{"labels":{"team":"web"}},"spec":{"replicas":0,"template":{"spec":{"containers":[{"name":"web","image":"other"}]}}}}`))
	if err := user.Patch(ctx, deployment.DeepCopy(), byHand); err != nil {
		t.Fatal(err)
	}
	child = planetest.Wait(t, p, deployment, func(d *appsv1.Deployment) bool {
		return *d.Spec.Replicas == 3 && d.Spec.Template.Spec.Containers[0].Image == "nginx:1.29" && d.Status.ReadyReplicas == 3
	})
	if child.Labels["team"] != "web" {
		t.Errorf("the label that somebody else put there is gone: %v", child.Labels)
	}

	// Delete the Deployment: it returns, as another object.
	if err := user.Delete(ctx, child); err != nil {
		t.Fatal(err)
	}
	gone := child.UID
	child = planetest.Wait(t, p, deployment, func(d *appsv1.Deployment) bool { return d.UID != gone && d.Status.ReadyReplicas == 3 })

	// Delete it: the finalizer cleans up outside, garbage collection inside.
	if err := user.Delete(ctx, site); err != nil {
		t.Fatal(err)
	}
	planetest.WaitGone(t, p, site)
	if records.has("blog.example.com") {
		t.Error("the site is gone, but its DNS record is not")
	}
	planetest.WaitGone(t, p, child)
	var pods corev1.PodList
	if err := user.List(ctx, &pods, client.InNamespace("default")); err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		planetest.WaitGone(t, p, &pods.Items[i])
	}
}

func TestDeploymentFor(t *testing.T) {
	for _, test := range []struct {
		why      string
		site     Website
		replicas int32
	}{
		{"what the spec says", Website{Spec: WebsiteSpec{Replicas: 3}}, 3},
		{"none is an answer, too", Website{Spec: WebsiteSpec{Replicas: 0}}, 0},
	} {
		if got := *deploymentFor(&test.site).Spec.Replicas; got != test.replicas {
			t.Errorf("%s: got %d replicas, want %d", test.why, got, test.replicas)
		}
	}
}
