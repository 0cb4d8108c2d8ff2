package client_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/client"
)

func TestGateSeesEveryRequest(t *testing.T) {
	var seen []client.Request
	c, s := scripted(t, func(r request) any {
		if r.method == "GET" && r.path == "/api/v1/configmaps" {
			return `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{},"items":[]}`
		}
		return webJSON
	}, func(cfg *client.Config) {
		cfg.Gate = func(ctx context.Context, r client.Request, send func(context.Context) error) error {
			seen = append(seen, r)
			return send(ctx)
		}
	})
	ctx, obj := t.Context(), configMap("default", "web")
	must(t, errors.Join(
		c.Get(ctx, key("default", "web"), obj),
		c.List(ctx, &corev1.ConfigMapList{}),
		c.Create(ctx, obj),
		c.Update(ctx, obj, client.DryRun),
		c.Patch(ctx, obj, client.RawPatch(types.MergePatchType, []byte(`{"data":null}`))),
		c.Apply(ctx, obj),
		c.Status().Update(ctx, obj),
		c.Delete(ctx, obj),
		c.DeleteAllOf(ctx, obj, client.InNamespace("default")),
		c.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "web-"}}),
	))
	resource := corev1.SchemeGroupVersion.WithResource("configmaps")
	named := func(verb, subresource string, dryRun bool) client.Request {
		return client.Request{Verb: verb, Resource: resource, Subresource: subresource, Namespace: "default", Name: "web", DryRun: dryRun}
	}
	want := []client.Request{
		named("get", "", false),
		{Verb: "list", Resource: resource},
		named("create", "", false),
		named("update", "", true),
		named("patch", "", false),
		named("patch", "", false),
		named("update", "status", false),
		named("delete", "", false),
		{Verb: "deletecollection", Resource: resource, Namespace: "default"},
		{Verb: "create", Resource: resource, Namespace: "default", GenerateName: "web-"},
	}
	if !slices.Equal(seen, want) {
		t.Errorf("got  %v\nwant %v", seen, want)
	}
	writes := 0
	for _, r := range seen {
		if r.Write() {
			writes++
		}
	}
	if writes != 7 || len(s.take()) != len(want) {
		t.Errorf("%d writes", writes)
	}
}

func TestGateRefuses(t *testing.T) {
	fenced := errors.New("the lease may be lost")
	refusal := fenced
	c, s := scripted(t, with(webJSON), func(cfg *client.Config) {
		cfg.Gate = func(context.Context, client.Request, func(context.Context) error) error { return refusal }
	})
	obj := configMap("default", "web")
	calls := func() []error {
		return []error{c.Create(t.Context(), obj), c.Apply(t.Context(), obj), c.Delete(t.Context(), obj), c.DeleteAllOf(t.Context(), obj, client.InNamespace("default"))}
	}
	for _, err := range calls() {
		if !errors.Is(err, fenced) {
			t.Errorf("refused: got %v", err)
		}
	}
	refusal = client.ErrNotSent
	for _, err := range calls() {
		if err != nil {
			t.Errorf("not sent: got %v", err)
		}
	}
	if err := c.Get(t.Context(), key("default", "web"), obj); !errors.Is(err, client.ErrNotSent) {
		t.Errorf("a read that is not sent has no answer, but gave %v", err)
	}
	if len(s.take()) != 0 || obj.UID != "" {
		t.Errorf("something was sent, or the object became %+v", obj)
	}
}

func TestGateCanBound(t *testing.T) {
	c, s := scripted(t, with(webJSON), func(cfg *client.Config) {
		cfg.Gate = func(ctx context.Context, _ client.Request, send func(context.Context) error) error {
			ctx, cancel := context.WithCancelCause(ctx)
			cancel(errors.New("too late"))
			return send(ctx)
		}
	})
	if err := c.Create(t.Context(), configMap("default", "web")); err == nil || len(s.take()) != 0 {
		t.Errorf("got %v", err)
	}
}
