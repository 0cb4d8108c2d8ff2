package test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	begin(t, m)
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
	planetest.Apply(t, c, "../examples/state/namespace.yaml")
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "tier"}}
	allows := func(tier string) func(*corev1.ResourceQuota) bool {
		return func(q *corev1.ResourceQuota) bool {
			return q.Spec.Hard.Pods().Cmp(resource.MustParse(podsOfTier[tier])) == 0
		}
	}
	planetest.Wait(t, c, quota, allows("small"))
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}}
	mergePatch(t, user, ns, `{"metadata":{"labels":{"example.com/tier":"large"}}}`)
	planetest.Wait(t, c, quota, allows("large"))
	// A label is what the server finds objects by.
	var large corev1.NamespaceList
	if err := user.List(t.Context(), &large, client.MatchingLabels{tierLabel: "large"}); err != nil || len(large.Items) != 1 {
		t.Errorf("found %d namespaces by their label: %v", len(large.Items), err)
	}
	mergePatch(t, user, ns, `{"metadata":{"labels":{"example.com/tier":null}}}`)
	planetest.WaitGone(t, c, quota)
}

// The hours are virtual ones.
func TestStateInAnAnnotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := planetest.New(t)
		user := startWith(t, c, addJanitor)
		planetest.Apply(t, c, "../examples/state/deployment.yaml")
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo"}}
		mergePatch(t, user, d, `{"metadata":{"annotations":{"example.com/expires-after":"soon"}}}`)
		waitForEvent(t, c, "default", "demo", "InvalidExpiry") // the server does not know what is valid
		mergePatch(t, user, d, `{"metadata":{"annotations":{"example.com/expires-after":"1h"}}}`)
		time.Sleep(59 * time.Minute)
		if err := user.Get(t.Context(), client.KeyOf(d), d); err != nil {
			t.Fatalf("gone too early: %v", err)
		}
		time.Sleep(90 * time.Second)
		planetest.WaitGone(t, c, d)
	})
}

func TestStateInACustomResource(t *testing.T) {
	c := newCluster(t)
	planetest.Apply(t, c, "../examples/state/websites.yaml")
	user := startWebsites(t, c, &dns{records: map[string]bool{}})
	planetest.Apply(t, c, "../examples/state/website.yaml")
	site := planetest.Wait(t, c, &Website{
		TypeMeta:   metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "Website"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blog"},
	}, func(w *Website) bool { return w.Status.Ready == 2 })

	// The server checks what is asked for, looks for it by a field, and keeps the status apart.
	for patch, says := range map[string]string{
		`{"spec":{"replicas":9}}`:             "less than or equal to 5",
		`{"spec":{"host":"www.example.com"}}`: "cannot change",
	} {
		err := user.Patch(t.Context(), site.DeepCopyObject().(*Website), client.RawPatch(types.MergePatchType, []byte(patch)))
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want %q", patch, err, says)
		}
	}
	var found WebsiteList
	if err := user.List(t.Context(), &found, client.MatchingFields{"spec.host": "blog.example.com"}); err != nil || len(found.Items) != 1 {
		t.Errorf("found %d websites by their host: %v", len(found.Items), err)
	}
	mergePatch(t, user, site, `{"status":{"ready":7}}`)
	if site.Status.Ready == 7 {
		t.Error("a write of the object wrote its status")
	}
}

// The limits that docs/where-to-keep-state.md names are the server's.
func TestLimitsOfState(t *testing.T) {
	c := newCluster(t)
	user, err := client.New(client.Config{REST: c.RESTConfig(), FieldOwner: "test"})
	if err != nil {
		t.Fatal(err)
	}
	create := func(change func(*corev1.ConfigMap)) error {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "limits-"}}
		change(cm)
		return user.Create(t.Context(), cm)
	}
	const key = "example.com/tier"
	for _, test := range []struct {
		why    string
		change func(*corev1.ConfigMap)
		taken  bool
	}{
		{"a label's value of 63", func(cm *corev1.ConfigMap) { cm.Labels = map[string]string{key: strings.Repeat("a", 63)} }, true},
		{"a label's value of 64", func(cm *corev1.ConfigMap) { cm.Labels = map[string]string{key: strings.Repeat("a", 64)} }, false},
		{"a label's value with a space", func(cm *corev1.ConfigMap) { cm.Labels = map[string]string{key: "very small"} }, false},
		{"annotations of 256 KiB", func(cm *corev1.ConfigMap) {
			cm.Annotations = map[string]string{key: strings.Repeat("a", 256<<10-len(key))}
		}, true},
		{"annotations of one byte more", func(cm *corev1.ConfigMap) {
			cm.Annotations = map[string]string{key: strings.Repeat("a", 256<<10-len(key)+1)}
		}, false},
		{"data of 1 MiB", func(cm *corev1.ConfigMap) { cm.Data = map[string]string{"a": strings.Repeat("a", 1<<20)} }, true},
		{"data of one byte more", func(cm *corev1.ConfigMap) { cm.Data = map[string]string{"a": strings.Repeat("a", 1<<20+1)} }, false},
	} {
		if err := create(test.change); (err == nil) != test.taken || err != nil && !apierrors.IsInvalid(err) {
			t.Errorf("%s: got %v", test.why, err)
		}
	}
	// Objects are not found by what their annotations or data say.
	for _, field := range []string{"metadata.annotations", "data.a"} {
		if err := user.List(t.Context(), &corev1.ConfigMapList{}, client.InNamespace("default"), client.MatchingFields{field: "x"}); !apierrors.IsBadRequest(err) {
			t.Errorf("by %s: got %v", field, err)
		}
	}
}
