package plane_test

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/setpoint-dev/setpoint/plane/planetest"
)

// Dependents go with their owner.
func testCascade(propagation metav1.DeletionPropagation) func(c cluster) {
	return func(c cluster) {
		must(c.AppsV1().Deployments(c.namespace).Create(c.Context(), deployment("web", 2), metav1.CreateOptions{}))(c.T)
		wait(c, "web", func(d *appsv1.Deployment) bool { return d.Status.AvailableReplicas == 2 })
		pods := must(c.CoreV1().Pods(c.namespace).List(c.Context(), metav1.ListOptions{}))(c.T)
		begin := time.Now()
		if err := c.AppsV1().Deployments(c.namespace).Delete(c.Context(), "web", metav1.DeleteOptions{PropagationPolicy: &propagation}); err != nil {
			c.Fatal(err)
		}
		for i := range pods.Items {
			planetest.WaitGone(c.T, c.plane, &pods.Items[i])
		}
		waitGone[appsv1.Deployment](c, "web")
		c.Log(propagation, "deletion done after", time.Since(begin))
	}
}

// Orphans stay when their owner goes.
func testOrphan(c cluster) {
	must(c.AppsV1().Deployments(c.namespace).Create(c.Context(), deployment("web", 1), metav1.CreateOptions{}))(c.T)
	wait(c, "web", func(d *appsv1.Deployment) bool { return d.Status.AvailableReplicas == 1 })
	orphan := metav1.DeletePropagationOrphan
	if err := c.AppsV1().Deployments(c.namespace).Delete(c.Context(), "web", metav1.DeleteOptions{PropagationPolicy: &orphan}); err != nil {
		c.Fatal(err)
	}
	waitAny(c, c.AppsV1().ReplicaSets(c.namespace).Watch, func(rs *appsv1.ReplicaSet) bool {
		return len(rs.OwnerReferences) == 0 && rs.Status.AvailableReplicas == 1
	})
}

// Custom resources own and are owned as soon as their kind is there.
func testCustomOwners(c cluster) {
	// Twice: the second definition comes back with what the first left behind.
	for range 2 {
		widgets := c.defineWidgets()
		owner := must(widgets.Create(c.Context(), widget("owner", nil), metav1.CreateOptions{}))(c.T)
		begin := time.Now()
		dependent := must(widgets.Create(c.Context(), widget("dependent", owner), metav1.CreateOptions{}))(c.T)
		must(c.CoreV1().ConfigMaps(c.namespace).Create(c.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name: "dependent", OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GroupVersionKind())},
		}}, metav1.CreateOptions{}))(c.T)
		if err := widgets.Delete(c.Context(), "owner", metav1.DeleteOptions{}); err != nil {
			c.Fatal(err)
		}
		waitGone[corev1.ConfigMap](c, "dependent")
		planetest.WaitGone(c.T, c.plane, dependent)
		c.Log("dependents of a custom resource gone after", time.Since(begin))
		c.removeWidgets()
	}
}

// A deleted namespace goes with everything in it.
func testNamespace(c cluster) {
	widgets := c.defineWidgets()
	must(widgets.Create(c.Context(), widget("w", nil), metav1.CreateOptions{}))(c.T)
	must(c.AppsV1().Deployments(c.namespace).Create(c.Context(), deployment("web", 3), metav1.CreateOptions{}))(c.T)
	wait(c, "web", func(d *appsv1.Deployment) bool { return d.Status.AvailableReplicas == 3 })
	begin := time.Now()
	if err := c.CoreV1().Namespaces().Delete(c.Context(), c.namespace, metav1.DeleteOptions{}); err != nil {
		c.Fatal(err)
	}
	waitGone[corev1.Namespace](c, c.namespace)
	c.Log("namespace gone after", time.Since(begin))
	if pods := must(c.CoreV1().Pods(c.namespace).List(c.Context(), metav1.ListOptions{}))(c.T); len(pods.Items) > 0 {
		c.Errorf("the namespace is gone and %d of its Pods are not", len(pods.Items))
	}
	if left := must(widgets.List(c.Context(), metav1.ListOptions{}))(c.T); len(left.Items) > 0 {
		c.Errorf("the namespace is gone and %d of its custom resources are not", len(left.Items))
	}
	c.removeWidgets()
}

var (
	widgetResource     = schema.GroupVersionResource{Group: "test.setpoint.dev", Version: "v1", Resource: "widgets"}
	definitionResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// definition is the CustomResourceDefinition of widgets.
var definition = &unstructured.Unstructured{Object: map[string]any{
	"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
	"metadata": map[string]any{"name": widgetResource.GroupResource().String()},
	"spec": map[string]any{
		"group": widgetResource.Group, "scope": "Namespaced",
		"names": map[string]any{"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
		"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{
			"openAPIV3Schema": map[string]any{"type": "object"},
		}}},
	},
}}

// defineWidgets returns when the kind is established.
func (c cluster) defineWidgets() dynamic.ResourceInterface {
	c.Helper()
	must(c.dynamic.Resource(definitionResource).Create(c.Context(), definition, metav1.CreateOptions{}))(c.T)
	planetest.Wait(c.T, c.plane, definition, func(d *unstructured.Unstructured) bool {
		conditions, _, _ := unstructured.NestedSlice(d.Object, "status", "conditions")
		return slices.ContainsFunc(conditions, func(each any) bool {
			condition := each.(map[string]any)
			return condition["type"] == "Established" && condition["status"] == "True"
		})
	})
	return c.dynamic.Resource(widgetResource).Namespace(c.namespace)
}

func (c cluster) removeWidgets() {
	c.Helper()
	if err := c.dynamic.Resource(definitionResource).Delete(c.Context(), definition.GetName(), metav1.DeleteOptions{}); err != nil {
		c.Fatal(err)
	}
	planetest.WaitGone(c.T, c.plane, definition)
}

func widget(name string, owner *unstructured.Unstructured) *unstructured.Unstructured {
	w := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": widgetResource.GroupVersion().String(), "kind": "Widget", "metadata": map[string]any{"name": name},
	}}
	if owner != nil {
		w.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GroupVersionKind())})
	}
	return w
}
