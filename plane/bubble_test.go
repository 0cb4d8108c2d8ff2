package plane_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/setpoint-dev/setpoint/plane"
	"github.com/setpoint-dev/setpoint/plane/manifest"
	"github.com/setpoint-dev/setpoint/plane/planetest"
)

// TestVirtualTime runs a whole plane in a bubble, where time passes only while
// everything waits. So it finds what sleeps: between two steps that follow each other
// by events, no more time may pass than short pauses take.
func TestVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		took := func(what string, limit time.Duration) {
			t.Helper()
			if passed := time.Since(begin); passed > limit {
				t.Errorf("%s took %s of virtual time, want at most %s", what, passed, limit)
			}
			begin = time.Now()
		}
		p, err := plane.New(plane.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		took("the start", 20*time.Millisecond)

		client := kubernetes.NewForConfigOrDie(p.RESTConfig())
		wanted := deployment("virtual", 3)
		wanted.Namespace = "default"
		if _, err := client.AppsV1().Deployments("default").Create(t.Context(), wanted, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		planetest.Wait(t, p, wanted, func(d *appsv1.Deployment) bool { return d.Status.AvailableReplicas == 3 })
		took("a Deployment", 20*time.Millisecond)

		crd, err := manifest.Decode([]byte(gadgets))
		if err != nil {
			t.Fatal(err)
		}
		applier, err := manifest.NewApplier(p.RESTConfig(), "test")
		if err != nil {
			t.Fatal(err)
		}
		if err := applier.Apply(t.Context(), crd...); err != nil {
			t.Fatal(err)
		}
		took("serving a new kind", 20*time.Millisecond)
		gadget := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "test.setpoint.dev/v1", "kind": "Gadget", "metadata": map[string]any{"name": "first"},
		}}
		_, err = dynamic.NewForConfigOrDie(p.RESTConfig()).Resource(gadgetsResource).Namespace("default").Create(t.Context(), gadget, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		took("the first custom resource", 20*time.Millisecond)

		time.Sleep(10 * time.Minute)
		begin = time.Now()
		p.Stop()
		took("the stop", 0)
	})
}

// A plane stops while a request is judged that waits, as the creation of an object in a namespace that does not exist does.
func TestStopWhileAdmissionWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := plane.New(plane.Config{APIOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		client := kubernetes.NewForConfigOrDie(p.RESTConfig())
		ctx, cancel := context.WithCancel(t.Context())
		refused := make(chan error, 1)
		go func() {
			_, err := client.CoreV1().ConfigMaps("missing").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "early"}}, metav1.CreateOptions{})
			refused <- err
		}()
		synctest.Wait() // it is being judged
		cancel()
		begin := time.Now()
		p.Stop()
		if passed := time.Since(begin); passed == 0 || passed > time.Second {
			t.Errorf("the stop took %v of virtual time, want the short while that the judgement lasts", passed)
		}
		if err := <-refused; err == nil {
			t.Error("an object was made in a namespace that does not exist")
		}
	})
}
