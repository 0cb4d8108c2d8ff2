package apply_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/setpoint-dev/setpoint/apply"
)

var (
	deployment = appsv1.SchemeGroupVersion.WithKind("Deployment")
	service    = corev1.SchemeGroupVersion.WithKind("Service")
	pod        = corev1.SchemeGroupVersion.WithKind("Pod")
)

func TestFromDropsNoise(t *testing.T) {
	now := metav1.Now()
	for _, test := range []struct {
		why  string
		obj  runtime.Object
		want string
	}{
		{
			"a Deployment with the least that is valid",
			&appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
				Spec: appsv1.DeploymentSpec{
					Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
					Template: corev1.PodTemplateSpec{
						ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
						Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}},
					},
				},
			},
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"default"},"spec":{"selector":{"matchLabels":{"app":"web"}},` +
				`"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"image":"nginx","name":"web"}]}}}}`,
		},
		{
			"what the server wrote, but for the UID",
			&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "default", Name: "web", UID: "u1", ResourceVersion: "7", Generation: 3, CreationTimestamp: now,
					DeletionTimestamp: &now, DeletionGracePeriodSeconds: new(int64),
					ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "me"}},
				},
				Spec:   corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "web"}}},
				Status: corev1.PodStatus{Phase: corev1.PodRunning},
			},
			`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"default","uid":"u1"},"spec":{"containers":[{"name":"web"}],"nodeName":"n1"}}`,
		},
		{
			"pointers to empty structs and explicit zeros stay",
			&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "web"},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: new(int64),
					Containers:                    []corev1.Container{{Name: "web", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1000m")}}}},
					Volumes:                       []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
				},
			},
			`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[{"name":"web","resources":{"limits":{"cpu":"1"}}}],` +
				`"terminationGracePeriodSeconds":0,"volumes":[{"emptyDir":{},"name":"tmp"}]}}`,
		},
		{
			"zero structs that encode themselves, in fields marked omitempty",
			&corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Name: "web"},
				Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}, {Port: 81, TargetPort: intstr.FromString("web")}}},
			},
			`{"apiVersion":"v1","kind":"Service","metadata":{"name":"web"},"spec":{"ports":[{"port":80},{"port":81,"targetPort":"web"}]}}`,
		},
	} {
		gvk := deployment
		switch test.obj.(type) {
		case *corev1.Pod:
			gvk = pod
		case *corev1.Service:
			gvk = service
		}
		before := test.obj.DeepCopyObject()
		got, err := apply.From(test.obj, gvk)
		if err != nil {
			t.Errorf("%s: %v", test.why, err)
			continue
		}
		if diff := cmp.Diff(test.want, encode(t, got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.why, diff)
		}
		if diff := cmp.Diff(before, test.obj); diff != "" {
			t.Errorf("%s: changed what it was given (-before +after):\n%s", test.why, diff)
		}
	}
}

func TestFromUnstructuredKeepsWhatIsWritten(t *testing.T) {
	gvk := deployment
	u := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "web", "resourceVersion": "3", "labels": map[string]any{}},
		"spec":     map[string]any{"strategy": map[string]any{}, "paused": nil},
		"status":   map[string]any{"replicas": int64(1)},
	}}
	before := u.DeepCopy()
	got, err := apply.From(u, gvk)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"labels":{},"name":"web"},"spec":{"paused":null,"strategy":{}}}`
	if diff := cmp.Diff(want, encode(t, got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(before, u); diff != "" {
		t.Errorf("changed what it was given (-before +after):\n%s", diff)
	}
}

func TestStatusFrom(t *testing.T) {
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u1", Labels: map[string]string{"a": "b"}},
		Spec:       appsv1.DeploymentSpec{Paused: true},
		Status:     appsv1.DeploymentStatus{Replicas: 2},
	}
	got, err := apply.StatusFrom(d, deployment)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"default","uid":"u1"},"status":{"replicas":2}}`
	if diff := cmp.Diff(want, encode(t, got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func encode(t *testing.T, obj *unstructured.Unstructured) string {
	t.Helper()
	data, err := json.Marshal(obj.Object)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func ExampleFrom() {
	replicas := int32(2)
	wanted := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas},
	}
	plain, _ := json.Marshal(wanted)
	fields, _ := apply.From(wanted, appsv1.SchemeGroupVersion.WithKind("Deployment"))
	quiet, _ := json.Marshal(fields.Object)
	fmt.Printf("%s\n%s\n", plain, quiet)
	// Output:
	// {"metadata":{"name":"web","namespace":"default"},"spec":{"replicas":2,"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"strategy":{}},"status":{}}
	// {"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"default"},"spec":{"replicas":2}}
}

func ExampleFromConfiguration() {
	configuration := corev1apply.ConfigMap("settings", "default").WithData(map[string]string{"level": "debug"})
	fields, err := apply.FromConfiguration(configuration)
	if err != nil {
		fmt.Println(err)
		return
	}
	data, _ := json.Marshal(fields.Object)
	fmt.Println(string(data))
	// Output:
	// {"apiVersion":"v1","data":{"level":"debug"},"kind":"ConfigMap","metadata":{"name":"settings","namespace":"default"}}
}
