package test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/event"
	"github.com/setpoint-dev/setpoint/filter"
	"github.com/setpoint-dev/setpoint/owner"
	"github.com/setpoint-dev/setpoint/plane/planetest"
)

// This file has the examples of docs/where-to-keep-state.md for a label and an annotation. That for a ConfigMap is in
// shop_test.go, and that for a kind of one's own in website_test.go.

const tierLabel = "example.com/tier"

// podsOfTier is what the values of the label mean.
var podsOfTier = map[string]string{"small": "10", "large": "100"}

// addQuotas declares a controller whose desired state is a label of Namespaces: each tier has a quota.
func addQuotas(m *setpoint.Manager) {
	c := m.Client()
	setpoint.For[*corev1.Namespace](m, "quotas").
		When(filter.LabelChanged).
		Owns(&corev1.ResourceQuota{}).
		Reconcile(func(ctx context.Context, ns *corev1.Namespace) (setpoint.Result, error) {
			quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "tier"}}
			pods, known := podsOfTier[ns.Labels[tierLabel]]
			if ns.DeletionTimestamp != nil {
				return setpoint.Result{}, nil
			}
			if !known {
				err := c.Get(ctx, client.KeyOf(quota), quota)
				if err == nil && owner.IsControlledBy(quota, ns) {
					err = c.Delete(ctx, quota)
				}
				return setpoint.Result{}, client.IgnoreNotFound(err)
			}
			quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse(pods)}
			if err := owner.SetController(ns, quota, c.Scheme()); err != nil {
				return setpoint.Result{}, setpoint.Terminal(err)
			}
			return setpoint.Result{}, c.Apply(ctx, quota, client.ForceOwnership)
		})
}

const expiresAfter = "example.com/expires-after"

// addJanitor declares a controller whose desired state is an annotation of Deployments: how long each is wanted.
func addJanitor(m *setpoint.Manager) {
	c, events := m.Client(), m.Events("janitor")
	setpoint.For[*appsv1.Deployment](m, "janitor").
		When(filter.AnnotationChanged).
		Reconcile(func(ctx context.Context, d *appsv1.Deployment) (setpoint.Result, error) {
			text, asked := d.Annotations[expiresAfter]
			if !asked || d.DeletionTimestamp != nil {
				return setpoint.Result{}, nil
			}
			life, err := time.ParseDuration(text)
			if err != nil { // nobody checked it before
				events.Eventf(d, event.Warning, "InvalidExpiry", "Expire", "annotation %s: %v", expiresAfter, err)
				return setpoint.Result{}, setpoint.Terminal(err)
			}
			if left := time.Until(d.CreationTimestamp.Add(life)); left > 0 {
				return setpoint.Result{RequeueAfter: left}, nil
			}
			return setpoint.Result{}, client.IgnoreNotFound(c.Delete(ctx, d))
		})
}

// startWith runs what add declares until the test ends, and returns a user's client.
func startWith(t *testing.T, c planetest.Cluster, add func(*setpoint.Manager)) *client.Client {
	t.Helper()
	m, err := setpoint.NewManager(setpoint.Config{REST: c.RESTConfig(), FieldOwner: "example"})
	if err != nil {
		t.Fatal(err)
	}
	add(m)
	run(t, m)
	user, err := client.New(client.Config{REST: c.RESTConfig(), FieldOwner: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return user
}

func mergePatch(t *testing.T, user *client.Client, obj client.Object, patch string) {
	t.Helper()
	if err := user.Patch(t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
}

func TestStateInALabel(t *testing.T) {
	c := newCluster(t)
	user := startWith(t, c, addQuotas)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}}
	if err := user.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "tier"}}
	for _, tier := range []string{"small", "large"} {
		mergePatch(t, user, ns, `{"metadata":{"labels":{"example.com/tier":"`+tier+`"}}}`)
		planetest.Wait(t, c, quota, func(q *corev1.ResourceQuota) bool {
			return q.Spec.Hard.Pods().Cmp(resource.MustParse(podsOfTier[tier])) == 0
		})
	}
	// A label is what the server finds objects by.
	var large corev1.NamespaceList
	if err := user.List(t.Context(), &large, client.MatchingLabels{tierLabel: "large"}); err != nil || len(large.Items) != 1 {
		t.Errorf("found %d namespaces by their label: %v", len(large.Items), err)
	}
	mergePatch(t, user, ns, `{"metadata":{"labels":{"example.com/tier":null}}}`)
	planetest.WaitGone(t, c, quota)
}

// The hour is a virtual one.
func TestStateInAnAnnotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := planetest.New(t)
		user := startWith(t, c, addJanitor)
		d := deploymentFor(&Website{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo"}, Spec: WebsiteSpec{Replicas: 1}})
		d.Annotations = map[string]string{expiresAfter: "soon"}
		if err := user.Create(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		waitForEvent(t, c, "default", "demo", "InvalidExpiry") // neither the server nor its schema knows what is valid
		mergePatch(t, user, d, `{"metadata":{"annotations":{"example.com/expires-after":"1h"}}}`)
		time.Sleep(59 * time.Minute)
		if err := user.Get(t.Context(), client.KeyOf(d), d); err != nil {
			t.Fatalf("gone too early: %v", err)
		}
		time.Sleep(90 * time.Second)
		planetest.WaitGone(t, c, d)
	})
}
