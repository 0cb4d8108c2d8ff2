package test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	eventsclient "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/condition"
	"github.com/setpoint-dev/setpoint/configspec"
	"github.com/setpoint-dev/setpoint/plane/planetest"
)

// asShopOperator reaches a cluster with the rights of the ServiceAccount of examples/configspec, and no others.
func asShopOperator(c planetest.Cluster) *rest.Config {
	config := c.RESTConfig()
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:shops:shop-operator",
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:shops", "system:authenticated"},
	}
	return config
}

// startShops runs the operator of shops until the test ends, and returns a user's client.
func startShops(t *testing.T, c planetest.Cluster, place configspec.Place) (*client.Client, *requestLog) {
	t.Helper()
	planetest.Apply(t, c, "../examples/configspec/role.yaml")
	sent := &requestLog{}
	config := asShopOperator(c)
	config.Wrap(sent.wrap)
	m, err := newShopOperator(config, place)
	if err != nil {
		t.Fatal(err)
	}
	begin(t, m)
	user, err := client.New(client.Config{REST: c.RESTConfig(), FieldOwner: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return user, sent
}

// shopStatus waits until the status of the shop books is about this document and holds.
func shopStatus(t *testing.T, c planetest.Cluster, place configspec.Place, document string, holds func(configspec.Status) bool) {
	t.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shops", Name: "books"}}
	text := func(cm *corev1.ConfigMap) string { return cm.Annotations["example.com/spec-status"] }
	if place == configspec.StatusConfigMap {
		cm.Name = "books-status"
		text = func(cm *corev1.ConfigMap) string { return cm.Data["status.yaml"] }
	}
	planetest.Wait(t, c, cm, func(cm *corev1.ConfigMap) bool {
		var status configspec.Status
		return yaml.Unmarshal([]byte(text(cm)), &status) == nil && status.Observed == configspec.Hash(document) && holds(status)
	})
}

func isReady(s configspec.Status) bool { return condition.IsTrue(s.Conditions, "Ready") }

// setDocument changes the document of the shop books as a user does.
func setDocument(t *testing.T, user *client.Client, document string) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"data": map[string]string{"spec.yaml": document}})
	if err != nil {
		t.Fatal(err)
	}
	mergePatch(t, user, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shops", Name: "books"}}, string(patch))
}

// TestShopWithANamespacedRole manages a Deployment by a ConfigMap, with no right outside of one namespace.
func TestShopWithANamespacedRole(t *testing.T) {
	for name, place := range map[string]configspec.Place{"annotation": configspec.Annotation, "second": configspec.StatusConfigMap} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			user, _ := startShops(t, c, place)
			deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shops", Name: "books"}}
			running := func(replicas int32) func(*appsv1.Deployment) bool {
				return func(d *appsv1.Deployment) bool {
					return *d.Spec.Replicas == replicas && d.Status.AvailableReplicas == replicas && d.Status.Replicas == replicas
				}
			}

			// It converges.
			planetest.Apply(t, c, "../examples/configspec/shop.yaml")
			made := planetest.Wait(t, c, deployment, running(2))
			shopStatus(t, c, place, "title: Books and more\nreplicas: 2\n", isReady)

			// It follows a change.
			setDocument(t, user, "title: Books\nreplicas: 3\n")
			planetest.Wait(t, c, deployment, running(3))
			shopStatus(t, c, place, "title: Books\nreplicas: 3\n", isReady)

			// A document that is not valid is reported, and what runs goes on.
			for _, bad := range []string{"title: Books\nreplica: 1\n", "replicas: 9\n"} {
				setDocument(t, user, bad)
				shopStatus(t, c, place, bad, func(s configspec.Status) bool {
					valid, _ := condition.Get(s.Conditions, configspec.ConditionValid)
					return valid.Status == metav1.ConditionFalse && valid.Message != "" && s.Applied == configspec.Hash("title: Books\nreplicas: 3\n") && isReady(s)
				})
			}
			waitForEvent(t, c, "shops", "books", configspec.ReasonInvalid)

			// Drift is mended, by the last valid document meanwhile.
			mergePatch(t, user, deployment.DeepCopy(), `{"spec":{"replicas":4}}`)
			if now := planetest.Wait(t, c, deployment, running(3)); now.UID != made.UID || now.Generation < made.Generation+3 {
				t.Errorf("the Deployment was made anew, or not changed and brought back: %+v", now.ObjectMeta)
			}
			setDocument(t, user, "title: Books\n")
			planetest.Wait(t, c, deployment, running(1))
			if err := user.Delete(t.Context(), deployment.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			planetest.Wait(t, c, deployment, func(d *appsv1.Deployment) bool { return d.UID != made.UID && running(1)(d) })

			// Deletion takes everything along.
			if err := user.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shops", Name: "books"}}); err != nil {
				t.Fatal(err)
			}
			planetest.WaitGone(t, c, deployment)
			planetest.WaitGone(t, c, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shops", Name: "books-status"}})
		})
	}
}

// waitForEvent waits for an Event of that reason about the object of that name.
func waitForEvent(t *testing.T, c planetest.Cluster, namespace, name, reason string) {
	t.Helper()
	events, err := eventsclient.NewForConfig(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), planetest.Timeout)
	defer cancel()
	w, err := events.Events(namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "regarding.name=" + name + ",reason=" + reason})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if _, ok := <-w.ResultChan(); !ok {
		t.Errorf("no Event with the reason %s", reason)
	}
}

// The rights of the test before are real: the same ServiceAccount is refused everything else.
func TestShopOperatorMayDoNothingElse(t *testing.T) {
	c := newCluster(t)
	startShops(t, c, configspec.Annotation)
	planetest.Apply(t, c, "../examples/configspec/shop.yaml")
	shopStatus(t, c, configspec.Annotation, "title: Books and more\nreplicas: 2\n", isReady) // it has its rights
	operator, err := client.New(client.Config{REST: asShopOperator(c)})
	if err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"list all ConfigMaps":     operator.List(t.Context(), &corev1.ConfigMapList{}),
		"read another namespace":  operator.List(t.Context(), &corev1.ConfigMapList{}, client.InNamespace("default")),
		"read Secrets":            operator.List(t.Context(), &corev1.SecretList{}, client.InNamespace("shops")),
		"delete what users wrote": operator.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shops", Name: "books"}}),
		"list Namespaces":         operator.List(t.Context(), &corev1.NamespaceList{}),
		"create in another":       operator.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}}),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: got %v, want Forbidden", what, err)
		}
	}
}

// The minute is a virtual one.
func TestIdleShopAsksForNothing(t *testing.T) {
	for name, place := range map[string]configspec.Place{"annotation": configspec.Annotation, "second": configspec.StatusConfigMap} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := planetest.New(t)
				user, sent := startShops(t, p, place)
				planetest.Apply(t, p, "../examples/configspec/shop.yaml")
				shopStatus(t, p, place, "title: Books and more\nreplicas: 2\n", isReady)
				setDocument(t, user, "title: \"\"\n")
				shopStatus(t, p, place, "title: \"\"\n", func(s configspec.Status) bool { return s.Applied != s.Observed })
				time.Sleep(time.Minute) // what the start left to do is done by then
				if busy := strings.Join(sent.take(), "\n"); !strings.Contains(busy, "PATCH /api/v1/namespaces/shops/configmaps/books") {
					t.Fatalf("the log does not show how the status was written, so it proves nothing:\n%s", busy)
				}

				time.Sleep(time.Minute)
				for _, line := range sent.take() {
					if !strings.HasPrefix(line, "WATCH ") {
						t.Errorf("an idle operator asked for %s", line)
					}
				}
			})
		})
	}
}
