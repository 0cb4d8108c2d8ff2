package client_test

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/internal/apitest"
)

// exampleClient is a client for a server in memory. In a reconciler it is the manager's.
func exampleClient() *client.Client {
	server := apitest.New(apitest.ConfigMaps, apitest.Deployments)
	c, err := client.New(client.Config{REST: server.REST(), FieldOwner: "example"})
	if err != nil {
		panic(err)
	}
	return c
}

func ExampleClient_Apply() {
	ctx, c := context.Background(), exampleClient()
	replicas := int32(2)
	web := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas},
	}
	err := c.Apply(ctx, web) // creates it
	fmt.Println(web.UID != "", err)

	replicas = 3
	err = c.Apply(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas},
	})
	fmt.Println(c.Get(ctx, client.KeyOf(web), web), *web.Spec.Replicas, err)
	// Output:
	// true <nil>
	// <nil> 3 <nil>
}

func ExampleClient_Patch() {
	ctx, c := context.Background(), exampleClient()
	settings := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings"},
		Data:       map[string]string{"level": "info"},
	}
	fmt.Println(c.Create(ctx, settings))

	before := settings.DeepCopy()
	settings.Data["level"] = "debug"
	fmt.Println(c.Patch(ctx, settings, client.MergeFrom(before)))

	// Metadata alone is enough to change metadata.
	partial := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings"}}
	partial.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	fmt.Println(c.Patch(ctx, partial, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"app":"web"}}}`))))

	fmt.Println(c.Get(ctx, client.KeyOf(settings), settings), settings.Data["level"], settings.Labels["app"])
	// Output:
	// <nil>
	// <nil>
	// <nil>
	// <nil> debug web
}

func ExampleClient_List() {
	ctx, c := context.Background(), exampleClient()
	for _, name := range []string{"one", "two", "three"} {
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"long": fmt.Sprint(len(name) > 3)}}}
		if err := c.Create(ctx, obj); err != nil {
			fmt.Println(err)
		}
	}
	var list corev1.ConfigMapList
	err := c.List(ctx, &list, client.InNamespace("default"), client.MatchingLabels{"long": "true"})
	fmt.Println(len(list.Items), list.Items[0].Name, err)
	// Output:
	// 1 three <nil>
}

func ExampleClient_Delete() {
	ctx, c := context.Background(), exampleClient()
	old := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings"}}
	fmt.Println(c.Create(ctx, old))
	fmt.Println(c.Delete(ctx, old))

	successor := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings"}}
	fmt.Println(c.Create(ctx, successor))
	// old has the UID of the object that is gone: its successor is safe.
	fmt.Println(apierrors.IsConflict(c.Delete(ctx, old)))

	fmt.Println(c.Delete(ctx, successor))
	fmt.Println(client.IgnoreNotFound(c.Delete(ctx, successor)))
	// Output:
	// <nil>
	// <nil>
	// <nil>
	// true
	// <nil>
	// <nil>
}
