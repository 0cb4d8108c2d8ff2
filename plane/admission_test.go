package plane_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/plane/internal/pki"
	"github.com/setpoint-dev/setpoint/plane/planetest"
)

// labeller is a webhook, with the certificate of the Service "hook", that labels what
// passes. It returns its URL and the authority to trust.
func labeller(t *testing.T, namespace string) (*url.URL, []byte) {
	authority, err := pki.NewAuthority("webhooks")
	if err != nil {
		t.Fatal(err)
	}
	cert, err := authority.Server("hook", []string{"127.0.0.1", "hook." + namespace + ".svc"})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		kind := admissionv1.PatchTypeJSONPatch
		review.Response = &admissionv1.AdmissionResponse{
			UID: review.Request.UID, Allowed: true, PatchType: &kind,
			Patch: []byte(`[{"op":"add","path":"/metadata/labels","value":{"by":"` + req.URL.Path[1:] + `"}}]`),
		}
		_ = json.NewEncoder(w).Encode(review)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert.TLS}}
	server.StartTLS()
	t.Cleanup(server.Close)
	address, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return address, authority.PEM
}

func TestWebhooks(t *testing.T) {
	a := newAPI(t)
	address, ca := labeller(t, a.namespace)

	// A Service leads out of the plane by a name.
	port, _ := strconv.Atoi(address.Port())
	_, err := a.client.CoreV1().Services(a.namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "hook"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	byURL, path, hookPort := address.JoinPath("url").String(), "/service", int32(port)
	for name, where := range map[string]admissionregistrationv1.WebhookClientConfig{
		"url":     {URL: &byURL, CABundle: ca},
		"service": {Service: &admissionregistrationv1.ServiceReference{Namespace: a.namespace, Name: "hook", Path: &path, Port: &hookPort}, CABundle: ca},
	} {
		t.Run(name, func(t *testing.T) {
			testWebhook(t, a, name, where)
		})
	}
}

func testWebhook(t *testing.T, a api, name string, where admissionregistrationv1.WebhookClientConfig) {
	none, fail := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Fail
	hooks := a.client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	_, err := hooks.Create(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name + "." + a.namespace},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "label.test.setpoint.dev", ClientConfig: where, SideEffects: &none, FailurePolicy: &fail,
			AdmissionReviewVersions: []string{"v1"},
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": a.namespace}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hooks.Delete(context.Background(), name+"."+a.namespace, metav1.DeleteOptions{}) })
	// Admission learns of webhooks through a watch.
	for {
		created, err := a.client.CoreV1().ConfigMaps(a.namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-"}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if created.Labels["by"] == name {
			return
		}
	}
}

func TestPolicies(t *testing.T) {
	a := newAPI(t)
	policies := a.client.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	name := "no-forbidden." + a.namespace
	rules := []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
	}}}
	_, err := policies.Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: rules},
			Validations:      []admissionregistrationv1.Validation{{Expression: "!object.metadata.name.startsWith('forbidden')", Message: "that name is forbidden"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = a.client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName:        name,
			ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
			MatchResources:    &admissionregistrationv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": a.namespace}}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// Admission learns of policies through a watch.
	for {
		_, err := a.client.CoreV1().ConfigMaps(a.namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "forbidden-"}}, metav1.CreateOptions{})
		if err == nil {
			continue
		}
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "that name is forbidden") {
			t.Errorf("got %v", err)
		}
		return
	}
}

func TestAdmissionOfPods(t *testing.T) {
	a := newAPI(t)
	planetest.Wait(t, a.plane, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: a.namespace}},
		func(*corev1.ServiceAccount) bool { return true })
	_, err := a.client.CoreV1().LimitRanges(a.namespace).Create(t.Context(), &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Name: "limits"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer, DefaultRequest: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("7m")},
		}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod, err := a.client.CoreV1().Pods(a.namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "admitted"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if pod.Spec.ServiceAccountName != "default" || len(pod.Spec.Volumes) != 1 {
		t.Errorf("ServiceAccount admission: account %q, volumes %v", pod.Spec.ServiceAccountName, pod.Spec.Volumes)
	}
	if cpu := pod.Spec.Containers[0].Resources.Requests.Cpu().String(); cpu != "7m" {
		t.Errorf("LimitRanger: the CPU request is %s", cpu)
	}
	if len(pod.Spec.Tolerations) != 2 {
		t.Errorf("DefaultTolerationSeconds: %v", pod.Spec.Tolerations)
	}
	if pod.Spec.Priority == nil {
		t.Error("Priority: none is set")
	}
	_, err = a.client.CoreV1().ConfigMaps("nowhere").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("NamespaceLifecycle: got %v, want NotFound", err)
	}
}
