//go:build edit

package edited

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/setpoint-dev/setpoint/plane/planetest"
)

func TestEdited(t *testing.T) {
	p := planetest.New(t)
	client, err := kubernetes.NewForConfig(p.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "edited"}}
	if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err, line)
	}
	if _, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), "edited", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
}
