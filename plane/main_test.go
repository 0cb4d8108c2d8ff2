package plane_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/setpoint-dev/setpoint/plane"
)

// shared is one plane for all tests that only look at what the API does. Each works
// in a namespace of its own.
var shared = sync.OnceValues(func() (*plane.Plane, error) {
	p, err := plane.New(plane.Config{Listen: "127.0.0.1:0"})
	if err != nil {
		return nil, err
	}
	stopShared = p.Stop
	return p, p.Start(context.Background())
})

var stopShared = func() {}

// upstreams are goroutines that packages of upstream start once in a process.
var upstreams = []goleak.Option{
	// glog flushes its buffers; started by the first message.
	goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"),
	// The storage of a deleted CustomResourceDefinition waits a second for requests.
	goleak.IgnoreAnyFunction("k8s.io/apiextensions-apiserver/pkg/apiserver.(*crdHandler).tearDown"),
	goleak.IgnoreAnyFunction("k8s.io/apiextensions-apiserver/pkg/apiserver.(*crdHandler).tearDown.func1"),
	// The server of custom resources sleeps for some seconds after the deletion of a
	// definition, before it lets go of its storage, and cannot be told not to.
	goleak.IgnoreAnyFunction("k8s.io/apiextensions-apiserver/pkg/apiserver.(*crdHandler).tearDown"),
	goleak.IgnoreAnyFunction("k8s.io/apiextensions-apiserver/pkg/apiserver.(*crdHandler).tearDown.func1"),
}

// TestMain checks that stopped planes have left no goroutine.
func TestMain(m *testing.M) {
	// The second handler sleeps from the last error on, by a clock that is not the one
	// of a bubble.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	code := m.Run()
	stopShared()
	if err := goleak.Find(upstreams...); err != nil {
		fmt.Println("goroutines are left of planes that were stopped:", err)
		code = 1
	}
	os.Exit(code)
}

// api is a namespace of the shared plane.
type api struct {
	plane     *plane.Plane
	client    kubernetes.Interface
	dynamic   dynamic.Interface
	namespace string
}

// newAPI makes a namespace that ends with the test.
func newAPI(t *testing.T) api {
	t.Helper()
	p, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	a := api{plane: p, client: kubernetes.NewForConfigOrDie(p.RESTConfig()), dynamic: dynamic.NewForConfigOrDie(p.RESTConfig())}
	namespaces := a.client.CoreV1().Namespaces()
	created, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a.namespace = created.Name
	t.Cleanup(func() {
		if err := namespaces.Delete(context.Background(), a.namespace, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return a
}

// configMap makes a ConfigMap of the test's namespace.
func (a api) configMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: a.namespace}, Data: data}
}
