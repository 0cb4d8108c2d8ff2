package plane_test

import (
	"encoding/json"
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func TestServerSideApplyKnowsOwners(t *testing.T) {
	a := newAPI(t)
	maps := a.client.CoreV1().ConfigMaps(a.namespace)
	apply := func(manager, value string, force bool) error {
		_, err := maps.Apply(t.Context(), corev1apply.ConfigMap("owned", a.namespace).WithData(map[string]string{"key": value}),
			metav1.ApplyOptions{FieldManager: manager, Force: force})
		return err
	}
	if err := apply("first", "1", false); err != nil {
		t.Fatal(err)
	}
	if err := apply("second", "2", false); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "first") {
		t.Errorf("taking another's field: got %v, want a conflict with \"first\"", err)
	}
	if err := apply("second", "2", true); err != nil {
		t.Errorf("taking another's field by force: %v", err)
	}
}

func TestDryRunChangesNothing(t *testing.T) {
	a := newAPI(t)
	maps := a.client.CoreV1().ConfigMaps(a.namespace)
	if _, err := maps.Create(t.Context(), a.configMap("dry", nil), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Fatal(err)
	}
	if _, err := maps.Get(t.Context(), "dry", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("got %v, want NotFound", err)
	}
}

func TestFieldValidation(t *testing.T) {
	a := newAPI(t)
	create := func(validation string) error {
		body := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x-` + strings.ToLower(validation) + `"},"dota":{}}`
		return a.client.CoreV1().RESTClient().Post().Namespace(a.namespace).Resource("configmaps").
			Param("fieldValidation", validation).SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(t.Context()).Error()
	}
	if err := create("Strict"); !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), `unknown field "dota"`) {
		t.Errorf("strict: got %v, want an error about dota", err)
	}
	if err := create("Ignore"); err != nil {
		t.Errorf("ignore: %v", err)
	}
}

func TestInvalidObjectIsExplained(t *testing.T) {
	a := newAPI(t)
	_, err := a.client.CoreV1().ConfigMaps(a.namespace).Create(t.Context(), a.configMap("Not_A_Name", nil), metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "lowercase RFC 1123 subdomain") {
		t.Errorf("got %v", err)
	}
}

func TestPatches(t *testing.T) {
	a := newAPI(t)
	services := a.client.CoreV1().Services(a.namespace)
	_, err := services.Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "patched"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "a", Port: 1}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		kind  types.PatchType
		patch string
		ports int
	}{
		{types.StrategicMergePatchType, `{"spec":{"ports":[{"name":"b","port":2}]}}`, 2},
		{types.JSONPatchType, `[{"op":"remove","path":"/spec/ports/0"}]`, 1},
		{types.MergePatchType, `{"spec":{"ports":[{"name":"c","port":3},{"name":"d","port":4},{"name":"e","port":5}]}}`, 3},
	} {
		patched, err := services.Patch(t.Context(), "patched", c.kind, []byte(c.patch), metav1.PatchOptions{})
		if err != nil {
			t.Errorf("%s: %v", c.kind, err)
			continue
		}
		if len(patched.Spec.Ports) != c.ports {
			t.Errorf("%s: got ports %v, want %d of them", c.kind, patched.Spec.Ports, c.ports)
		}
	}
}

func TestProtobufAndTables(t *testing.T) {
	a := newAPI(t)
	config := rest.CopyConfig(a.plane.RESTConfig())
	config.ContentType = "application/vnd.kubernetes.protobuf"
	binary := kubernetes.NewForConfigOrDie(config)
	if _, err := binary.CoreV1().ConfigMaps(a.namespace).Create(t.Context(), a.configMap("pb", map[string]string{"a": "b"}), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	raw, err := a.client.CoreV1().RESTClient().Get().Namespace(a.namespace).Resource("configmaps").
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var table metav1.Table
	if err := json.Unmarshal(raw, &table); err != nil {
		t.Fatal(err)
	}
	if table.Kind != "Table" || len(table.ColumnDefinitions) < 3 || table.ColumnDefinitions[1].Name != "Data" {
		t.Errorf("got %s", raw)
	}
}

func TestScaleSubresource(t *testing.T) {
	a := newAPI(t)
	deployments := a.client.AppsV1().Deployments(a.namespace)
	created, err := deployments.Create(t.Context(), deployment("scaled", 1), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: created.Name, Namespace: created.Namespace}, Spec: autoscalingv1.ScaleSpec{Replicas: 2}}
	if _, err := deployments.UpdateScale(t.Context(), created.Name, scale, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	scaled, err := deployments.Get(t.Context(), created.Name, metav1.GetOptions{})
	if err != nil || *scaled.Spec.Replicas != 2 {
		t.Errorf("got %d replicas, %v", *scaled.Spec.Replicas, err)
	}
}
