package owner_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/internal/apitest"
	"github.com/setpoint-dev/setpoint/owner"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func deployment(namespace, name string, uid types.UID) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: uid}}
}

func configMap(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func TestSetController(t *testing.T) {
	for _, test := range []struct {
		why          string
		owner, child client.Object
		before       []metav1.OwnerReference
		err          string
		refs         int
	}{
		{"no owner yet", deployment("default", "web", "u1"), configMap("default", "c"), nil, "", 1},
		{"an owner that is no controller", deployment("default", "web", "u1"), configMap("default", "c"), []metav1.OwnerReference{{UID: "u2"}}, "", 2},
		{"the same again", deployment("default", "web", "u1"), configMap("default", "c"), []metav1.OwnerReference{{UID: "u1", Controller: pointer(true)}}, "", 1},
		{"the same, not yet as controller", deployment("default", "web", "u1"), configMap("default", "c"), []metav1.OwnerReference{{UID: "u1"}}, "", 1},
		{"a predecessor of that name", deployment("default", "web", "u1"), configMap("default", "c"),
			[]metav1.OwnerReference{{Kind: "Deployment", Name: "web", UID: "u0", Controller: pointer(true)}}, "is controlled by Deployment web (UID u0)", 1},
		{"another namespace", deployment("default", "web", "u1"), configMap("other", "c"), nil, "not in its namespace", 0},
		{"a cluster-scoped child", deployment("default", "web", "u1"), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, nil, "not in its namespace", 0},
		{"a cluster-scoped owner", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u1"}}, configMap("other", "c"), nil, "", 1},
		{"an owner that does not exist yet", deployment("default", "web", ""), configMap("default", "c"), nil, "has no UID", 0},
	} {
		t.Run(test.why, func(t *testing.T) {
			test.child.SetOwnerReferences(test.before)
			err := owner.SetController(test.owner, test.child, clientgoscheme.Scheme)
			if test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) || test.err == "" && err != nil {
				t.Errorf("got %v, want %q", err, test.err)
			}
			if n := len(test.child.GetOwnerReferences()); n != test.refs {
				t.Errorf("%d references", n)
			}
			if got := owner.IsControlledBy(test.child, test.owner); got != (test.err == "") {
				t.Errorf("controlled: %v", got)
			}
		})
	}
}

func pointer[T any](v T) *T { return &v }

func TestLaw8OwnersMatchByUID(t *testing.T) {
	child := configMap("default", "c")
	if err := owner.SetController(deployment("default", "web", "u1"), child, clientgoscheme.Scheme); err != nil {
		t.Fatal(err)
	}
	successor := deployment("default", "web", "u2")
	if owner.IsControlledBy(child, successor) || owner.IsOwnedBy(child, successor) {
		t.Error("an owner of the same name owns its predecessor's child")
	}
	if owner.IsControlledBy(child, deployment("default", "web", "")) || owner.IsOwnedBy(configMap("default", "d"), deployment("default", "web", "")) {
		t.Error("an owner without UID owns something")
	}
	if owner.RemoveOwner(successor, child) || !owner.RemoveOwner(deployment("default", "renamed", "u1"), child) {
		t.Error("references are not removed by UID")
	}
}

// setUp returns a server that holds an owner and a child.
func setUp(t *testing.T) (*client.Client, *apitest.Server, *appsv1.Deployment, *corev1.ConfigMap) {
	t.Helper()
	server := apitest.New(apitest.ConfigMaps, apitest.Deployments)
	c, err := client.New(client.Config{REST: server.REST()})
	if err != nil {
		t.Fatal(err)
	}
	return c, server, apitest.Put(server, deployment("default", "web", "")), apitest.Put(server, configMap("default", "c"))
}

func TestAdoptAndRelease(t *testing.T) {
	c, server, web, child := setUp(t)
	if err := owner.Adopt(t.Context(), c, web, child); err != nil {
		t.Fatal(err)
	}
	there := configMap("default", "c")
	if server.Get(there); !owner.IsControlledBy(there, web) || !owner.IsControlledBy(child, web) {
		t.Errorf("not adopted: %v", there.OwnerReferences)
	}
	other := apitest.Put(server, deployment("default", "other", ""))
	var owned *owner.OwnedError
	if err := owner.Adopt(t.Context(), c, other, child); !errors.As(err, &owned) || owned.Controller.UID != web.UID {
		t.Errorf("adopted twice: %v", err)
	}
	server.Requests()
	if err := owner.Adopt(t.Context(), c, web, child); err != nil || len(server.Requests()) > 0 {
		t.Errorf("adopted again: %v", err)
	}
	if err := owner.Release(t.Context(), c, web, child); err != nil {
		t.Fatal(err)
	}
	if server.Get(there); len(there.OwnerReferences) != 0 {
		t.Errorf("not released: %v", there.OwnerReferences)
	}
	server.Delete(child)
	child.OwnerReferences = []metav1.OwnerReference{{UID: web.UID}}
	if err := owner.Release(t.Context(), c, web, child); err != nil {
		t.Errorf("of a child that is gone: %v", err)
	}
}

// TestAdoptChecksTheOwner: what the caller knows of the owner may be stale.
func TestAdoptChecksTheOwner(t *testing.T) {
	for why, change := range map[string]func(*apitest.Server, *appsv1.Deployment){
		"is being deleted": func(s *apitest.Server, d *appsv1.Deployment) {
			d.Finalizers = []string{"example.com/x"}
			s.Delete(apitest.Put(s, d.DeepCopy()))
		},
		"was replaced": func(s *apitest.Server, d *appsv1.Deployment) {
			s.Delete(d)
			apitest.Put(s, deployment("default", "web", ""))
		},
		"not found": func(s *apitest.Server, d *appsv1.Deployment) { s.Delete(d) },
	} {
		c, server, web, child := setUp(t)
		known := web.DeepCopy()
		change(server, web)
		if err := owner.Adopt(t.Context(), c, known, child); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: got %v", why, err)
		}
	}
}

func TestAdoptOfAnotherStateFails(t *testing.T) {
	c, server, web, child := setUp(t)
	changed := child.DeepCopy()
	changed.Data = map[string]string{"a": "1"}
	apitest.Put(server, changed)
	if err := owner.Adopt(t.Context(), c, web, child); err == nil {
		t.Error("a child was adopted in a state that nobody looked at")
	}
	server.Delete(child)
	apitest.Put(server, configMap("default", "c"))
	if err := owner.Adopt(t.Context(), c, web, child); err == nil {
		t.Error("a successor of the child was adopted")
	}
}

func TestOrphan(t *testing.T) {
	c, server, web, child := setUp(t)
	second := apitest.Put(server, configMap("default", "d"))
	for _, obj := range []*corev1.ConfigMap{child, second} {
		if err := owner.Adopt(t.Context(), c, web, obj); err != nil {
			t.Fatal(err)
		}
	}
	if err := owner.Orphan(t.Context(), c, web, child, second); err != nil {
		t.Fatal(err)
	}
	for _, obj := range []*corev1.ConfigMap{child, second} {
		if server.Get(obj); len(obj.OwnerReferences) > 0 {
			t.Errorf("%s still has %v", obj.Name, obj.OwnerReferences)
		}
	}
}

func ExampleSetController() {
	web := deployment("default", "web", "5f0c")
	settings := configMap("default", "settings")
	err := owner.SetController(web, settings, clientgoscheme.Scheme)
	fmt.Println(err, owner.ControllerOf(settings).Name, owner.IsControlledBy(settings, web))

	recreated := deployment("default", "web", "77aa")
	fmt.Println(owner.IsControlledBy(settings, recreated))
	fmt.Println(owner.SetController(recreated, settings, clientgoscheme.Scheme))
	// Output:
	// <nil> web true
	// false
	// *v1.ConfigMap default/settings is controlled by Deployment web (UID 5f0c): an object has one controller at most, so use another name or delete it
}
