package foo

import (
	"crypto/sha256"
	"encoding/hex"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/operators/foo/v1alpha1"
)

const (
	defaultReplicas = 1
	defaultImage    = "nginx:latest"
)

// deploymentName returns the name of the Deployment that foo asks for.
func deploymentName(foo *v1alpha1.Foo) string {
	if foo.Spec.DeploymentName != "" {
		return foo.Spec.DeploymentName
	}
	return foo.Name
}

// replicas returns the number of Pods that foo asks for.
func replicas(foo *v1alpha1.Foo) int32 {
	if foo.Spec.Replicas != nil {
		return *foo.Spec.Replicas
	}
	return defaultReplicas
}

// image returns the image that foo asks for.
func image(foo *v1alpha1.Foo) string {
	if foo.Spec.Image != "" {
		return foo.Spec.Image
	}
	return defaultImage
}

// podLabels returns the labels that select foo's Pods. A Deployment's selector never changes, so these depend on nothing
// that can change in a Foo.
func podLabels(foo *v1alpha1.Foo) map[string]string {
	return map[string]string{
		"app.kubernetes.io/name":     "foo",
		"app.kubernetes.io/instance": labelValue(foo.Name),
	}
}

// selector returns podLabels as the string that the scale subresource serves.
func selector(foo *v1alpha1.Foo) string {
	return labels.SelectorFromSet(podLabels(foo)).String()
}

// labelValue returns name, or when it is too long for a label a beginning of it that a hash keeps distinct.
func labelValue(name string) string {
	const limit, hash = 63, 12
	if len(name) <= limit {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return name[:limit-hash-1] + "-" + hex.EncodeToString(sum[:])[:hash]
}

// desired returns the Deployment that foo asks for, with the fields that the operator owns and no others. uid is that of
// the Deployment to apply to, and empty for one to create.
func desired(foo *v1alpha1.Foo, uid types.UID) *appsv1.Deployment {
	pods := podLabels(foo)
	count := replicas(foo)
	return &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       foo.Namespace,
			Name:            deploymentName(foo),
			UID:             uid,
			Labels:          podLabels(foo),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(foo, v1alpha1.GroupVersion.WithKind("Foo"))},
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: &count,
			Selector: &metav1.LabelSelector{MatchLabels: pods},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: pods},
				Spec: corev1.PodSpec{
					Containers: []corev1.Container{{Name: "foo", Image: image(foo)}},
				},
			},
		},
	}
}
