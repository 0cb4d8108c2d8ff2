package test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/operators/memcached"
	cachev1 "github.com/setpoint-dev/setpoint/operators/memcached/v1"
	"github.com/setpoint-dev/setpoint/operators/memcached/v1alpha1"
	"github.com/setpoint-dev/setpoint/plane"
	"github.com/setpoint-dev/setpoint/plane/manifest"
	"github.com/setpoint-dev/setpoint/plane/planetest"
)

// startMemcachedWebhooks runs the operator with its webhooks, as its ServiceAccount, and returns when API servers call
// them, with a user's client and the rights that the operator used.
func startMemcachedWebhooks(t *testing.T) (planetest.Cluster, *client.Client, *rightsLog) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	manifests, err := memcached.WebhookManifests("https://"+listener.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "webhooks.yaml")
	if err := os.WriteFile(file, []byte(manifests), 0o600); err != nil {
		t.Fatal(err)
	}
	rbac, err := manifest.Decode([]byte(memcached.RBAC() + "---\n" + memcached.WebhookRBAC()))
	if err != nil {
		t.Fatal(err)
	}
	p, operator := planeWithRights(t, plane.Config{}, rbac)
	used := &rightsLog{seen: sets.New[string]()}
	operator.Wrap(used.wrap)
	planetest.Apply(t, p, file)
	m := newMemcachedManager(t, operator, "")
	if _, err := memcached.Webhooks(m, memcached.WebhookOptions{Listener: listener, Hosts: []string{"127.0.0.1"}}); err != nil {
		t.Fatal(err)
	}
	begin(t, m)
	user, err := client.New(client.Config{REST: p.RESTConfig(), Scheme: memcachedScheme(t), FieldOwner: "test"})
	if err != nil {
		t.Fatal(err)
	}
	// An API server shows nowhere which webhooks it knows; so it is asked, by dry runs that need all of them and must be denied.
	ctx, cancel := context.WithTimeout(t.Context(), planetest.Timeout)
	defer cancel()
	probe := &v1alpha1.Memcached{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "not.a.name"}}
	for err = nil; !apierrors.IsInvalid(err); {
		if err = user.Create(ctx, probe, client.DryRun); ctx.Err() != nil {
			t.Fatalf("the webhooks are not called: %v", err)
		}
	}
	return p, user, used
}

func TestMemcachedWebhooks(t *testing.T) {
	p, user, used := startMemcachedWebhooks(t)
	ctx := t.Context()

	// Defaults that follow from other fields can be seen.
	mc := newMemcached("sessions", 2)
	mc.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	mc.Spec.ExtraArgs = []string{"-c", "2048"}
	for mc.Spec.MemoryLimitMB == nil {
		// The probe has shown that validation is called, which does not say that defaulting is.
		if err := user.Create(ctx, mc, client.DryRun); err != nil {
			t.Fatal(err)
		}
		mc.ResourceVersion, mc.UID = "", ""
	}
	if *mc.Spec.MemoryLimitMB != 768 {
		t.Errorf("the memory is %d", *mc.Spec.MemoryLimitMB)
	}

	// What the schema cannot compare is refused, with the field.
	wrong := mc.DeepCopy()
	wrong.Spec.MemoryLimitMB = new(int32(1024))
	err := user.Create(ctx, wrong)
	if status := apierrors.APIStatus(nil); !apierrors.IsInvalid(err) || !errors.As(err, &status) ||
		len(status.Status().Details.Causes) != 1 || status.Status().Details.Causes[0].Field != "spec.memoryLimitMB" {
		t.Errorf("got %v, want one cause about the memory", err)
	}

	// v1alpha1 reads and writes what v1 made, and keeps what it has no fields for.
	if err := user.Create(ctx, mc); err != nil {
		t.Fatal(err)
	}
	planetest.Wait(t, p, mc, settled)
	alpha := &v1alpha1.Memcached{}
	if err := user.Get(ctx, client.KeyOf(mc), alpha); err != nil {
		t.Fatal(err)
	}
	if strings.Join(alpha.Status.Nodes, " ") != "sessions-0 sessions-1" || alpha.Spec.Memory.String() != "768Mi" {
		t.Errorf("v1alpha1 is %+v", alpha)
	}
	alpha.Spec.Size, alpha.Spec.Memory = new(int32(3)), new(resource.MustParse("100.5Mi"))
	if err := user.Update(ctx, alpha); err != nil {
		t.Fatal(err)
	}
	mc = planetest.Wait(t, p, mc, func(mc *cachev1.Memcached) bool { return *mc.Spec.Size == 3 && settled(mc) })
	if *mc.Spec.MemoryLimitMB != 101 || len(mc.Spec.ExtraArgs) != 2 || mc.Spec.Resources.Limits.Memory().String() != "1Gi" {
		t.Errorf("v1 is %+v", mc.Spec)
	}
	if err := user.Get(ctx, client.KeyOf(mc), alpha); err != nil || alpha.Spec.Memory.Cmp(resource.MustParse("100.5Mi")) != 0 {
		t.Errorf("v1alpha1 reads %s of what it wrote: %v", alpha.Spec.Memory, err)
	}

	// A v1alpha1 from before there was a v1 runs, too.
	old := &v1alpha1.Memcached{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "old"}}
	if err := user.Create(ctx, old); err != nil {
		t.Fatal(err)
	}
	planetest.Wait(t, p, newMemcached("old", 1), settled)

	rules, err := manifest.Decode([]byte(memcached.WebhookRBAC()))
	if err != nil {
		t.Fatal(err)
	}
	for _, right := range used.unused(t, rules) {
		if right != "update /secrets" { // which is for the renewal of the certificate, months from now
			t.Errorf("the webhooks do not need the right to %s", right)
		}
	}
}
