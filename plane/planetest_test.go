package plane_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/plane/planetest"
)

func TestWait(t *testing.T) {
	a := newAPI(t)
	wanted := deployment("waited-for", 2)
	wanted.Namespace = a.namespace
	if _, err := a.client.AppsV1().Deployments(a.namespace).Create(t.Context(), wanted, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ready := planetest.Wait(t, a.plane, wanted, func(d *appsv1.Deployment) bool { return d.Status.ReadyReplicas == 2 })
	if ready.UID == "" || ready.Status.AvailableReplicas == 0 && ready.Status.ReadyReplicas != 2 {
		t.Errorf("Wait returned %+v", ready)
	}
	background := metav1.DeletePropagationBackground
	if err := a.client.AppsV1().Deployments(a.namespace).Delete(t.Context(), wanted.Name, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Fatal(err)
	}
	planetest.WaitGone(t, a.plane, ready)
}

// failing records what a test that fails would say.
type failing struct {
	*testing.T
	text string
}

type failed struct{}

func (f *failing) Fatalf(format string, args ...any) {
	f.text = fmt.Sprintf(format, args...)
	panic(failed{})
}

func TestWaitFailureShowsTheLastState(t *testing.T) {
	a := newAPI(t)
	object := a.configMap("stuck", map[string]string{"phase": "waiting"})
	fails := func(object *corev1.ConfigMap) string {
		f := &failing{T: t}
		func() {
			defer func() {
				if r := recover(); r != nil && r != (failed{}) {
					panic(r)
				}
			}()
			planetest.WaitFor(f, a.plane, 50*time.Millisecond, object, func(c *corev1.ConfigMap) bool { return c.Data["phase"] == "done" })
		}()
		return f.text
	}
	if text := fails(object); !strings.Contains(text, "ConfigMap "+a.namespace+"/stuck") || !strings.Contains(text, "does not exist") {
		t.Errorf("of an object that does not exist it says:\n%s", text)
	}
	if _, err := a.client.CoreV1().ConfigMaps(a.namespace).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if text := fails(object); !strings.Contains(text, "phase: waiting") || strings.Contains(text, "managedFields") {
		t.Errorf("of an object in another state it says:\n%s", text)
	}
}
