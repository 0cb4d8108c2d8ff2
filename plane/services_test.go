package plane_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestServiceAddresses(t *testing.T) {
	a := newAPI(t)
	services := a.client.CoreV1().Services(a.namespace)
	port := []corev1.ServicePort{{Port: 80}}
	create := func(name string, spec corev1.ServiceSpec) (*corev1.Service, error) {
		return services.Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
	}
	first, err := create("first", corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: port})
	if err != nil {
		t.Fatal(err)
	}
	nodePort := first.Spec.Ports[0].NodePort
	if nodePort < 30000 || nodePort > 32767 {
		t.Errorf("the node port is %d", nodePort)
	}
	ip, err := a.client.NetworkingV1().IPAddresses().Get(t.Context(), first.Spec.ClusterIP, metav1.GetOptions{})
	if err != nil || ip.Spec.ParentRef == nil || ip.Spec.ParentRef.Name != first.Name {
		t.Errorf("ClusterIP %s: its IPAddress is %v, %v", first.Spec.ClusterIP, ip, err)
	}

	if _, err := create("second", corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80, NodePort: nodePort}}}); !apierrors.IsInvalid(err) {
		t.Errorf("a node port could be taken twice: %v", err)
	}
	if _, err := create("third", corev1.ServiceSpec{ClusterIP: first.Spec.ClusterIP, Ports: port}); !apierrors.IsInvalid(err) {
		t.Errorf("a ClusterIP could be taken twice: %v", err)
	}
	if err := services.Delete(t.Context(), "first", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := create("second", corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, ClusterIP: first.Spec.ClusterIP, Ports: []corev1.ServicePort{{Port: 80, NodePort: nodePort}}}); err != nil {
		t.Errorf("what a deleted Service held could not be taken: %v", err)
	}
}

func TestKubernetesService(t *testing.T) {
	a := newAPI(t)
	service, err := a.client.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if service.Spec.ClusterIP != "10.96.0.1" {
		t.Errorf("its ClusterIP is %s", service.Spec.ClusterIP)
	}
}
