package finalizer_test

import (
	"slices"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/finalizer"
	"github.com/setpoint-dev/setpoint/internal/apitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ours, theirs = "example.com/ours", "example.org/theirs"

// setUp returns a client and an object with these finalizers.
func setUp(t *testing.T, finalizers ...string) (*client.Client, *apitest.Server, *corev1.ConfigMap) {
	t.Helper()
	server := apitest.New(apitest.ConfigMaps)
	c, err := client.New(client.Config{REST: server.REST()})
	if err != nil {
		t.Fatal(err)
	}
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Finalizers: finalizers}}
	if err := c.Create(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	server.Requests()
	return c, server, obj
}

// writes counts the patches since it was last asked.
func writes(server *apitest.Server) (n int) {
	for _, r := range server.Requests() {
		if r.Verb == "patch" {
			n++
		}
	}
	return n
}

func TestEnsure(t *testing.T) {
	c, server, obj := setUp(t, theirs)
	added, err := finalizer.Ensure(t.Context(), c, obj, ours)
	if err != nil || !added || !slices.Equal(obj.Finalizers, []string{theirs, ours}) || writes(server) != 1 {
		t.Fatalf("added %v: %v, %v", added, obj.Finalizers, err)
	}
	added, err = finalizer.Ensure(t.Context(), c, obj, ours)
	if err != nil || added || writes(server) != 0 {
		t.Errorf("once more: added %v: %v", added, err)
	}
}

// TestEnsureLeavesDeletedAlone: the API forbids to add a finalizer to an object that is being deleted.
func TestEnsureLeavesDeletedAlone(t *testing.T) {
	c, server, obj := setUp(t, theirs)
	server.Delete(obj)
	server.Get(obj)
	added, err := finalizer.Ensure(t.Context(), c, obj, ours)
	if err != nil || added || writes(server) != 0 {
		t.Errorf("added %v: %v", added, err)
	}
}

func TestStaleListIsNotWritten(t *testing.T) {
	c, server, obj := setUp(t, theirs)
	stale := obj.DeepCopy()
	obj.Finalizers = append(obj.Finalizers, "example.net/third")
	apitest.Put(server, obj.DeepCopy())
	_, err := finalizer.Ensure(t.Context(), c, stale, ours)
	if !apierrors.IsConflict(err) || !slices.Equal(stale.Finalizers, []string{theirs}) {
		t.Errorf("got %v, and %v", err, stale.Finalizers)
	}
	if err := finalizer.Remove(t.Context(), c, stale, theirs); !apierrors.IsConflict(err) {
		t.Errorf("got %v", err)
	}
}

func TestRemove(t *testing.T) {
	c, server, obj := setUp(t, ours, theirs)
	server.Delete(obj)
	server.Get(obj)
	server.Requests()
	for _, step := range []struct {
		name   string
		left   []string
		writes int
	}{
		{ours, []string{theirs}, 1},
		{ours, []string{theirs}, 0},
		{theirs, nil, 1},
	} {
		if err := finalizer.Remove(t.Context(), c, obj, step.name); err != nil {
			t.Fatal(err)
		}
		if n := writes(server); !slices.Equal(obj.Finalizers, step.left) || n != step.writes {
			t.Errorf("removed %s: left %v by %d writes", step.name, obj.Finalizers, n)
		}
	}
	if server.Count(apitest.ConfigMaps) != 0 {
		t.Error("the object is still there")
	}
	obj.Finalizers = []string{ours}
	if err := finalizer.Remove(t.Context(), c, obj, ours); err != nil {
		t.Errorf("of an object that is gone: %v", err)
	}
}
