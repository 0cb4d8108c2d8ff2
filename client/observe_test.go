package client_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/internal/apitest"
)

// The observer is told of each write and of what became of it, and of nothing else; its context is that of the request.
func TestObserver(t *testing.T) {
	type contextKey struct{}
	server := apitest.New(apitest.ConfigMaps)
	var seen []string
	c, err := client.New(client.Config{
		REST: server.REST(),
		Observe: func(ctx context.Context, r client.Request) (context.Context, func(client.Written)) {
			begun := fmt.Sprintf("%s %s %s/%s%s", r.Verb, r.Resource.Resource, r.Namespace, r.Name, r.GenerateName)
			return context.WithValue(ctx, contextKey{}, begun), func(w client.Written) {
				seen = append(seen, fmt.Sprintf("%s: %s, version %t, body %t, failed %t", begun, w.Name, w.Version != "", len(w.Body) > 0, w.Err != nil))
			}
		},
		Gate: func(ctx context.Context, r client.Request, send func(context.Context) error) error {
			if r.Write() && ctx.Value(contextKey{}) == nil {
				t.Errorf("%s %s: the gate does not get the observer's context", r.Verb, r.Name)
			}
			if r.Name == "refused" {
				return errors.New("refused")
			}
			return send(ctx)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	named := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	}
	obj := named("web")
	if err := c.Create(ctx, obj); err != nil {
		t.Fatal(err)
	}
	before := obj.DeepCopy()
	obj.Data = map[string]string{"a": "b"}
	if err := errors.Join(
		c.Patch(ctx, obj, client.MergeFrom(before)),
		c.Patch(ctx, obj, client.MergeFrom(obj)), // changes nothing
		c.Get(ctx, client.KeyOf(obj), obj),
		c.List(ctx, &corev1.ConfigMapList{}),
		c.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "made-"}}),
		c.Delete(ctx, obj),
	); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(ctx, named("refused")); err == nil {
		t.Error("not refused")
	}
	var all corev1.ConfigMapList
	if err := c.List(ctx, &all); err != nil || len(all.Items) != 1 {
		t.Fatalf("%v: %v", err, all.Items)
	}
	if diff := cmp.Diff([]string{
		"create configmaps default/web: web, version true, body true, failed false",
		"patch configmaps default/web: web, version true, body true, failed false",
		"create configmaps default/made-: " + all.Items[0].Name + ", version true, body true, failed false",
		"delete configmaps default/web: web, version false, body true, failed false",
		"create configmaps default/refused: refused, version false, body true, failed true",
	}, seen); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
