package test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/lease"
	"github.com/setpoint-dev/setpoint/plane/planetest"
)

// sharer runs a replica that copies what is wanted of ConfigMaps, and returns what closes when it begins to work, and what
// stops it.
func sharer(t *testing.T, p planetest.Cluster, name string) (works <-chan struct{}, stop func()) {
	t.Helper()
	m, err := setpoint.NewManager(setpoint.Config{
		REST: p.RESTConfig(), FieldOwner: "sharer", Seed: 1,
		Shards: &setpoint.Shards{Count: 4, Lease: lease.Config{
			Name: "sharers", Namespace: "default", Identity: name,
			Duration: 4 * time.Second, RenewDeadline: 3 * time.Second, RetryPeriod: 200 * time.Millisecond,
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	begun := make(chan struct{})
	var once sync.Once
	setpoint.For[*corev1.ConfigMap](m, "copying").
		Reconcile(func(ctx context.Context, o *corev1.ConfigMap) (setpoint.Result, error) {
			if o.Labels["shared"] == "" {
				return setpoint.Result{}, nil
			}
			once.Do(func() { close(begun) })
			if o.Data["done"] == o.Data["wanted"] {
				return setpoint.Result{}, nil
			}
			before := o.DeepCopy()
			o.Data["done"], o.Data["by"] = o.Data["wanted"], name
			return setpoint.Result{}, m.Client().Patch(ctx, o, client.MergeFrom(before))
		})
	return begun, begin(t, m)
}

// Replicas share their objects on a real API server, hand them over when they leave, and leave no Lease behind.
func TestShards(t *testing.T) {
	p := newCluster(t)
	user, err := client.New(client.Config{REST: p.RESTConfig(), FieldOwner: "user"})
	if err != nil {
		t.Fatal(err)
	}
	_, stop := sharer(t, p, "a")
	const objects = 40
	want := func(value string) {
		t.Helper()
		for n := range objects {
			o := &corev1.ConfigMap{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("shared-", n), Labels: map[string]string{"shared": "yes"}},
				Data:       map[string]string{"wanted": value},
			}
			if err := user.Apply(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
	}
	done := func(value string) map[string]int {
		t.Helper()
		by := map[string]int{}
		for n := range objects {
			o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("shared-", n)}}
			o = planetest.Wait(t, p, o, func(o *corev1.ConfigMap) bool { return o.Data["done"] == value })
			by[o.Data["by"]]++
		}
		return by
	}
	want("1")
	if by := done("1"); by["a"] != objects {
		t.Errorf("alone a did %v", by)
	}

	works, _ := sharer(t, p, "b")
	<-works // it holds a shard
	want("2")
	if by := done("2"); by["a"] == 0 || by["b"] == 0 {
		t.Errorf("together they did %v", by)
	}

	stop()
	for shard := range 4 {
		held := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("sharers-", shard)}}
		planetest.Wait(t, p, held, func(l *coordinationv1.Lease) bool { return *l.Spec.HolderIdentity == "b" })
	}
	want("last")
	if by := done("last"); by["b"] != objects {
		t.Errorf("alone b did %v", by)
	}
	var leases coordinationv1.LeaseList
	if err := user.List(t.Context(), &leases, client.InNamespace("default"), client.MatchingLabels{"setpoint.dev/ring": "sharers"}); err != nil {
		t.Fatal(err)
	}
	if len(leases.Items) != 5 {
		t.Errorf("%d Leases, want those of four shards and of one member", len(leases.Items))
	}
}
