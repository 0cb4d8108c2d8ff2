package test

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/plane/planetest"
	"github.com/setpoint-dev/setpoint/webhook"
)

// startGadgetHooks runs the webhooks of Gadgets in a manager until the test ends, and returns when API servers call them: a
// configuration of each kind and the CRD lead to them by URL.
func startGadgetHooks(t *testing.T, p planetest.Cluster, wrap func(http.Handler) http.Handler, change func(*webhook.AuthorityConfig)) *client.Client {
	t.Helper()
	planetest.Apply(t, p, "testdata/gadgets.yaml")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	base := "https://" + listener.Addr().String()
	user := newUser(t, p.RESTConfig())
	registerGadgetHooks(t, user, base)

	m, err := setpoint.NewManager(setpoint.Config{REST: p.RESTConfig(), FieldOwner: "gadgets"})
	if err != nil {
		t.Fatal(err)
	}
	config := webhook.AuthorityConfig{
		Client: m.Client(), Namespace: "default", Name: "gadget-webhooks", Hosts: []string{"127.0.0.1"},
		Validating: []string{"gadgets"}, Mutating: []string{"gadgets"}, CRDs: []string{"gadgets.example.com"},
	}
	change(&config)
	authority, err := webhook.NewAuthority(config)
	if err != nil {
		t.Fatal(err)
	}
	server, err := webhook.NewServer(webhook.Config{Certificates: authority, Metrics: m.Metrics()})
	if err != nil {
		t.Fatal(err)
	}
	if err := addGadgets(server, wrap); err != nil {
		t.Fatal(err)
	}
	m.Add(setpoint.Runnable{
		Name: "webhooks", Standby: true, Check: server.Check,
		Run: func(ctx context.Context) error { return server.Serve(ctx, listener) },
	})
	begin(t, m)

	awaitGadgetHooks(t, user)
	ready := httptest.NewRecorder()
	m.Handler().ServeHTTP(ready, httptest.NewRequest(http.MethodGet, "/readyz/webhooks?verbose", nil))
	if !strings.HasPrefix(ready.Body.String(), "[+]webhooks ok: ") {
		t.Errorf("/readyz/webhooks: %d %s", ready.Code, ready.Body)
	}
	return user
}

func crd(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}}
	u.SetName(name)
	return u
}

func newUser(t *testing.T, config *rest.Config) *client.Client {
	t.Helper()
	scheme := gadgetScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	user, err := client.New(client.Config{REST: config, Scheme: scheme, FieldOwner: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return user
}

// registerGadgetHooks makes the configurations, and has the CRD's conversion lead to base.
func registerGadgetHooks(t *testing.T, user *client.Client, base string) {
	t.Helper()
	where := func(path string) admissionregistrationv1.WebhookClientConfig {
		url := base + path
		return admissionregistrationv1.WebhookClientConfig{URL: &url}
	}
	none := admissionregistrationv1.SideEffectClassNone
	rules := []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{"CREATE", "UPDATE", "DELETE"},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{"example.com"}, APIVersions: []string{"v1"}, Resources: []string{"gadgets"}},
	}}
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "gadgets"},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "default.gadgets.example.com", ClientConfig: where(webhook.MutatePath(gadgetKind)),
			Rules: rules, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
		}},
	}
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "gadgets"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "validate.gadgets.example.com", ClientConfig: where(webhook.ValidatePath(gadgetKind)),
			Rules: rules, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
		}},
	}
	ctx := t.Context()
	for _, obj := range []client.Object{mutating, validating} {
		if err := user.Create(ctx, obj); err != nil {
			t.Fatal(err)
		}
	}
	url := fmt.Sprintf(`{"spec":{"conversion":{"webhook":{"clientConfig":{"url":%q}}}}}`, base+webhook.ConvertPath)
	if err := user.Patch(ctx, crd("gadgets.example.com"), client.RawPatch(types.MergePatchType, []byte(url))); err != nil {
		t.Fatal(err)
	}
}

func gadget(name string, spec GadgetSpec) *Gadget {
	return &Gadget{
		TypeMeta:   metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "Gadget"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       spec,
	}
}

// awaitGadgetHooks returns when the API server calls the webhooks and trusts them. It learns of configurations by its
// watches and shows nowhere what it knows; so it is asked, by dry runs that need a conversion and must be denied.
func awaitGadgetHooks(t *testing.T, user *client.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), planetest.Timeout)
	defer cancel()
	probe := &GadgetV1Beta1{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "probe"}}
	probe.Spec.Size = "0x1"
	for {
		err := user.Create(ctx, probe, client.DryRun)
		if apierrors.IsInvalid(err) && strings.Contains(err.Error(), "must be positive") {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("the webhooks are not called: %v", err)
		}
	}
}

func TestWebhooks(t *testing.T) {
	p := newCluster(t)
	user := startGadgetHooks(t, p, asItIs, func(*webhook.AuthorityConfig) {})
	ctx := t.Context()

	// Mutate: the default is there, and so is what the Go type does not know.
	u := &unstructured.Unstructured{}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(gadget("a", GadgetSpec{Width: 2, Height: 3}))
	if err != nil {
		t.Fatal(err)
	}
	u.Object = content
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	if err := unstructured.SetNestedField(u.Object, "stays", "spec", "fieldOfTheFuture"); err != nil {
		t.Fatal(err)
	}
	if err := user.Create(ctx, u); err != nil {
		t.Fatal(err)
	}
	colour, _, _ := unstructured.NestedString(u.Object, "spec", "colour")
	future, _, _ := unstructured.NestedString(u.Object, "spec", "fieldOfTheFuture")
	if colour != "grey" || future != "stays" {
		t.Errorf("created with colour %q and field of the future %q", colour, future)
	}

	// Validate: the causes name the fields.
	err = user.Create(ctx, gadget("b", GadgetSpec{}))
	status := apierrors.APIStatus(nil)
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) != 2 ||
		status.Status().Details.Causes[1].Field != "spec.height" {
		t.Errorf("error %v, want one of Invalid with a cause for each of two fields", err)
	}
	kept := gadget("kept", GadgetSpec{Width: 1, Height: 1, Colour: "red"})
	kept.Labels = map[string]string{"keep": "true"}
	if err := user.Create(ctx, kept); err != nil {
		t.Fatal(err)
	}
	if err := user.Delete(ctx, kept); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "remove its label first") {
		t.Errorf("deletion: %v, want a denial", err)
	}

	// Convert: each version reads what another wrote, and nothing is lost on the way there and back.
	alpha := &GadgetV1Alpha1{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kept"}}
	key := client.KeyOf(alpha)
	if err := user.Get(ctx, key, alpha); err != nil {
		t.Fatal(err)
	}
	if alpha.Size != "1x1" || alpha.Annotations[colourAnnotation] != "red" || alpha.UID != kept.UID {
		t.Errorf("v1alpha1 is %+v", alpha)
	}
	alpha.Size = "4x5"
	if err := user.Update(ctx, alpha); err != nil {
		t.Fatal(err)
	}
	var beta GadgetV1Beta1
	var hub Gadget
	if err := user.Get(ctx, key, &beta); err != nil {
		t.Fatal(err)
	}
	if err := user.Get(ctx, key, &hub); err != nil {
		t.Fatal(err)
	}
	if beta.Spec.Size != "4x5" || beta.Spec.Colour != "red" || hub.Spec != (GadgetSpec{Width: 4, Height: 5, Colour: "red"}) || len(hub.Annotations) != 0 {
		t.Errorf("v1beta1 is %+v, v1 is %+v", beta, hub)
	}
	// A batch: the list of all in another version.
	list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "example.com/v1beta1", "kind": "GadgetList"}}
	if err := user.List(ctx, list, client.InNamespace("default")); err != nil {
		t.Fatal(err)
	}
	var sizes []string
	for _, item := range list.Items {
		size, _, _ := unstructured.NestedString(item.Object, "spec", "size")
		sizes = append(sizes, item.GetName()+" "+size)
	}
	if fmt.Sprint(sizes) != "[a 2x3 kept 4x5]" {
		t.Errorf("the list has %v", sizes)
	}
	// What cannot be converted is named.
	bad := &GadgetV1Beta1{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "bad"}}
	bad.Spec.Size = "large"
	if err := user.Create(ctx, bad); err == nil || !strings.Contains(err.Error(), `convert Gadget default/bad from example.com/v1beta1 to example.com/v1: size "large"`) {
		t.Errorf("error %v, want one that names the object", err)
	}
}

// Certificates of the shortest lives are rotated, CAs and all, while four clients create, convert and delete without a
// pause. It ends when a CA has gone the whole way: made, signing, replaced, expired and dropped. The API server may be as
// late to see a bundle as a CA lives on after it was replaced: 24 seconds.
func TestCertificatesRotateUnderLoad(t *testing.T) {
	t.Parallel()
	p := newCluster(t)
	user := startGadgetHooks(t, p, oneRequestPerConnection, func(c *webhook.AuthorityConfig) {
		c.CALifetime, c.Lifetime, c.RotateAt, c.Interval = 30*time.Second, 20*time.Second, 0.2, 500*time.Millisecond
	})

	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	var mu sync.Mutex
	admissions, failures := 0, []error(nil)
	for worker := range 4 {
		load.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				n, err := oneRound(user, fmt.Sprintf("load-%d-%d", worker, i))
				mu.Lock()
				admissions += n
				if err != nil {
					failures = append(failures, err)
				}
				mu.Unlock()
			}
		})
	}

	var first []byte
	bundles, certificates := map[string]bool{}, map[string]bool{}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gadget-webhooks"}}
	planetest.WaitFor(t, p, 2*time.Minute, secret, func(s *corev1.Secret) bool {
		bundle := s.Data["ca.crt"]
		bundles[string(bundle)], certificates[string(s.Data[corev1.TLSCertKey])] = true, true
		if first == nil {
			block, _ := pem.Decode(bundle)
			first = pem.EncodeToMemory(block)
		}
		return !bytes.Contains(bundle, first)
	})
	stop()
	load.Wait()
	for _, err := range failures {
		t.Error(err)
	}
	t.Logf("%d admissions and conversions, %d serving certificates, %d bundles", admissions, len(certificates), len(bundles))
	if len(certificates) < 4 || len(bundles) < 4 || admissions < 100 {
		t.Error("that is too little to have shown anything")
	}
}

func asItIs(h http.Handler) http.Handler { return h }

// oneRequestPerConnection makes the API server check the certificate again for each request, or nearly so.
func oneRequestPerConnection(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Connection", "close")
		h.ServeHTTP(w, req)
	})
}

// oneRound creates an object, reads it in another version and deletes it.
func oneRound(user *client.Client, name string) (admissions int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), planetest.Timeout)
	defer cancel()
	g := gadget(name, GadgetSpec{Width: 1, Height: 1})
	if err := user.Create(ctx, g); err != nil {
		return 0, fmt.Errorf("create %s: %w", name, err)
	}
	if err := user.Get(ctx, client.KeyOf(g), &GadgetV1Alpha1{}); err != nil {
		return 2, fmt.Errorf("read %s as v1alpha1: %w", name, err)
	}
	if err := user.Delete(ctx, g); err != nil {
		return 3, fmt.Errorf("delete %s: %w", name, err)
	}
	return 4, nil
}
