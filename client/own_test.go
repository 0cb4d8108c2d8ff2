package client

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/cache"
)

// TestLaw13PendingWritesAreBounded: at the limit, a cache that never catches up costs no more memory, and no written key may be
// read from it unasked.
func TestLaw13PendingWritesAreBounded(t *testing.T) {
	silent, err := cache.New(cache.Config{REST: &rest.Config{Host: "http://server.test"}})
	if err != nil {
		t.Fatal(err)
	}
	gvk := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	mapping := &meta.RESTMapping{Resource: corev1.SchemeGroupVersion.WithResource("configmaps"), GroupVersionKind: gvk, Scope: meta.RESTScopeNamespace}
	resource := mapping.Resource.GroupResource()
	own := newOwnWrites(silent, nil, 2*time.Second)
	key := func(i int) types.NamespacedName {
		return types.NamespacedName{Namespace: "default", Name: fmt.Sprint(i)}
	}
	for i := range maxPending + 1 {
		own.record(gvk, target{gvk: gvk, mapping: mapping, key: key(i)}, func(p *pending) { p.revision = "5" })
		if n := len(own.writes[resource]); n > maxPending {
			t.Fatalf("%d keys are kept", n)
		}
	}
	for _, i := range []int{0, maxPending} {
		if writes := own.in(resource, key(i)); len(writes) != 1 || !writes[0].unknown {
			t.Errorf("key %d: a read must see %v, want to ask the server", i, writes)
		}
	}
}

func TestLater(t *testing.T) {
	for _, test := range []struct{ a, b, want string }{
		{"", "5", "5"},
		{"5", "", "5"},
		{"9", "10", "10"},
		{"10", "9", "10"},
		{"99999999999999999999", "100000000000000000000", "100000000000000000000"},
		{"", "v1", ""},
		{"5", "v1", "5"},
		{"", "", ""},
	} {
		if got := later(test.a, test.b); got != test.want {
			t.Errorf("later(%q, %q) = %q, want %q", test.a, test.b, got, test.want)
		}
	}
}
