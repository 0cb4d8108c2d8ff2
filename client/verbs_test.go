package client_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-dev/setpoint/client"
)

const webJSON = `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"namespace":"default","name":"web","uid":"u1","resourceVersion":"7"},"data":{"a":"1"}}`

func configMap(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func widget(namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(widgetKind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

func metadataOf(gvk schema.GroupVersionKind, namespace, name string) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	m.SetGroupVersionKind(gvk)
	return m
}

// TestRequests checks the request line of every verb.
func TestRequests(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	for _, test := range []struct {
		why  string
		call func(context.Context, *client.Client) error
		want string
	}{
		{"get", func(ctx context.Context, c *client.Client) error {
			return c.Get(ctx, key("default", "web"), &corev1.ConfigMap{})
		}, "GET /api/v1/namespaces/default/configmaps/web"},
		{"get of a cluster-scoped kind, whose namespace is dropped", func(ctx context.Context, c *client.Client) error {
			return c.Get(ctx, key("ignored", "n1"), &corev1.Node{})
		}, "GET /api/v1/nodes/n1"},
		{"get of a custom resource", func(ctx context.Context, c *client.Client) error {
			return c.Get(ctx, key("default", "w"), widget("", ""))
		}, "GET /apis/example.com/v1/namespaces/default/widgets/w"},
		{"list", func(ctx context.Context, c *client.Client) error {
			return c.List(ctx, &corev1.ConfigMapList{})
		}, "GET /api/v1/configmaps"},
		{"list with everything", func(ctx context.Context, c *client.Client) error {
			return c.List(ctx, &corev1.ConfigMapList{}, client.InNamespace("default"), client.MatchingLabels{"a": "b"},
				client.MatchingLabelsSelector{Selector: labels.SelectorFromSet(labels.Set{"c": "d"})},
				client.MatchingFields{"metadata.name": "web"}, client.Limit(5), client.Continue("token"))
		}, "GET /api/v1/namespaces/default/configmaps?continue=token&fieldSelector=metadata.name=web&labelSelector=a=b,c=d&limit=5"},
		{"create", func(ctx context.Context, c *client.Client) error {
			return c.Create(ctx, configMap("default", "web"))
		}, "POST /api/v1/namespaces/default/configmaps?fieldManager=me"},
		{"create, dry run by another owner", func(ctx context.Context, c *client.Client) error {
			return c.Create(ctx, configMap("default", "web"), client.DryRun, client.FieldOwner("you"))
		}, "POST /api/v1/namespaces/default/configmaps?dryRun=All&fieldManager=you"},
		{"update", func(ctx context.Context, c *client.Client) error { return c.Update(ctx, node.DeepCopy()) },
			"PUT /api/v1/nodes/n1?fieldManager=me"},
		{"patch", func(ctx context.Context, c *client.Client) error {
			return c.Patch(ctx, configMap("default", "web"), client.RawPatch(types.MergePatchType, []byte(`{"data":{}}`)))
		}, "PATCH /api/v1/namespaces/default/configmaps/web?fieldManager=me"},
		{"apply", func(ctx context.Context, c *client.Client) error {
			return c.Apply(ctx, configMap("default", "web"), client.ForceOwnership)
		}, "PATCH /api/v1/namespaces/default/configmaps/web?fieldManager=me&force=true"},
		{"delete", func(ctx context.Context, c *client.Client) error { return c.Delete(ctx, configMap("default", "web")) },
			"DELETE /api/v1/namespaces/default/configmaps/web"},
		{"delete all of", func(ctx context.Context, c *client.Client) error {
			return c.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace("default"), client.MatchingLabels{"a": "b"})
		}, "DELETE /api/v1/namespaces/default/configmaps?labelSelector=a=b"},
		{"status update", func(ctx context.Context, c *client.Client) error { return c.Status().Update(ctx, node.DeepCopy()) },
			"PUT /api/v1/nodes/n1/status?fieldManager=me"},
		{"status apply", func(ctx context.Context, c *client.Client) error { return c.Status().Apply(ctx, node.DeepCopy()) },
			"PATCH /api/v1/nodes/n1/status?fieldManager=me"},
		{"scale read", func(ctx context.Context, c *client.Client) error {
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
			return client.IgnoreNotFound(c.SubResource("scale").Get(ctx, d, &autoscalingv1.Scale{}))
		}, "GET /apis/apps/v1/namespaces/default/deployments/web/scale"},
		{"eviction", func(ctx context.Context, c *client.Client) error {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-1"}}
			return c.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{ObjectMeta: pod.ObjectMeta})
		}, "POST /api/v1/namespaces/default/pods/web-1/eviction?fieldManager=me"},
	} {
		t.Run(test.why, func(t *testing.T) {
			c, s := scripted(t, func(r request) any {
				kind := "ConfigMap"
				switch {
				case strings.Contains(r.path, "nodes"):
					kind = "Node"
				case strings.Contains(r.path, "widgets"):
					return `{"kind":"Widget","apiVersion":"example.com/v1","metadata":{}}`
				case strings.HasSuffix(r.path, "scale"):
					return apierrors.NewNotFound(schema.GroupResource{}, "web")
				case strings.HasSuffix(r.path, "eviction") || r.method == "DELETE":
					return `{"kind":"Status","apiVersion":"v1","status":"Success"}`
				case r.method == "GET" && strings.HasSuffix(r.path, "s"):
					kind = "ConfigMapList"
				}
				return `{"kind":"` + kind + `","apiVersion":"v1","metadata":{}}`
			})
			must(t, test.call(t.Context(), c))
			if got := s.one(t).String(); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestAnswerReplacesObject(t *testing.T) {
	c, _ := scripted(t, with(webJSON))
	stale := func() *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Labels: map[string]string{"left": "over"}},
			Data:       map[string]string{"left": "over"},
		}
	}
	want := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u1", ResourceVersion: "7"},
		Data:       map[string]string{"a": "1"},
	}
	for name, call := range map[string]func(*corev1.ConfigMap) error{
		"get":    func(obj *corev1.ConfigMap) error { return c.Get(t.Context(), key("default", "web"), obj) },
		"create": func(obj *corev1.ConfigMap) error { return c.Create(t.Context(), obj) },
		"update": func(obj *corev1.ConfigMap) error { return c.Update(t.Context(), obj) },
		"apply":  func(obj *corev1.ConfigMap) error { return c.Apply(t.Context(), obj) },
		"patch": func(obj *corev1.ConfigMap) error {
			return c.Patch(t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(`{"data":{"a":"1"}}`)))
		},
	} {
		obj := stale()
		must(t, call(obj))
		if diff := cmp.Diff(want, obj); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestFailureLeavesObject(t *testing.T) {
	c, _ := scripted(t, with(apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "web", nil)))
	obj := configMap("default", "web")
	obj.Data = map[string]string{"mine": "1"}
	for name, err := range map[string]error{
		"get":    c.Get(t.Context(), key("default", "web"), obj),
		"create": c.Create(t.Context(), obj),
		"update": c.Update(t.Context(), obj),
		"apply":  c.Apply(t.Context(), obj),
		"delete": c.Delete(t.Context(), obj),
	} {
		if !apierrors.IsForbidden(err) || !strings.HasPrefix(err.Error(), name+" ConfigMap default/web: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if obj.Data["mine"] != "1" {
		t.Errorf("the object was changed: %v", obj)
	}
}

func TestEncodings(t *testing.T) {
	const proto, plain = "application/vnd.kubernetes.protobuf", "application/json"
	const partial = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	for _, test := range []struct {
		why            string
		call           func(*client.Client) error
		accept, posted string
	}{
		{"a typed built-in kind", func(c *client.Client) error { return c.Create(t.Context(), configMap("default", "web")) },
			proto + "," + plain, proto},
		{"an unstructured built-in kind", func(c *client.Client) error {
			u := widget("default", "web")
			u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
			return c.Create(t.Context(), u)
		}, plain, plain},
		{"metadata", func(c *client.Client) error {
			return c.Get(t.Context(), key("default", "web"), metadataOf(corev1.SchemeGroupVersion.WithKind("ConfigMap"), "", ""))
		}, proto + partial + "," + plain + partial + "," + plain, ""},
	} {
		c, s := scripted(t, with(webJSON))
		must(t, test.call(c))
		r := s.one(t)
		if got := r.header.Get("Accept"); got != test.accept {
			t.Errorf("%s: accepts %s, want %s", test.why, got, test.accept)
		}
		if got := r.header.Get("Content-Type"); got != test.posted {
			t.Errorf("%s: sends %s, want %s", test.why, got, test.posted)
		}
	}
}

// TestBug3078ListTwice reads two lists into one: the second must not add to the first.
func TestBug3078ListTwice(t *testing.T) {
	c, _ := scripted(t, func(r request) any {
		name := "one"
		if strings.Contains(r.path, "other") {
			name = "two"
		}
		return `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"` + name + `"}}]}`
	})
	typed := &corev1.ConfigMapList{}
	partial := &metav1.PartialObjectMetadataList{}
	partial.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	tree := &unstructured.UnstructuredList{}
	tree.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	for _, list := range []client.ObjectList{typed, partial, tree} {
		must(t, c.List(t.Context(), list, client.InNamespace("some")))
		must(t, c.List(t.Context(), list, client.InNamespace("other")))
	}
	if len(typed.Items) != 1 || typed.Items[0].Name != "two" || typed.Items[0].Kind != "ConfigMap" {
		t.Errorf("typed: %+v", typed.Items)
	}
	if len(partial.Items) != 1 || partial.Items[0].Name != "two" || partial.Items[0].Kind != "ConfigMap" {
		t.Errorf("metadata: %+v", partial.Items)
	}
	if len(tree.Items) != 1 || tree.Items[0].GetName() != "two" || tree.Items[0].GetKind() != "ConfigMap" {
		t.Errorf("unstructured: %+v", tree.Items)
	}
}

// TestNothingIsNotEverything: the selector that matches nothing has the same text as the one that matches everything.
func TestNothingIsNotEverything(t *testing.T) {
	c, s := scripted(t, with(webJSON))
	nothing := client.MatchingLabelsSelector{Selector: labels.Nothing()}
	list := &corev1.ConfigMapList{Items: []corev1.ConfigMap{{}}}
	must(t, c.List(t.Context(), list, nothing, client.MatchingLabels{"a": "b"}))
	must(t, c.DeleteAllOf(t.Context(), &corev1.ConfigMap{}, client.InNamespace("default"), nothing))
	if len(list.Items) != 0 || len(s.take()) != 0 {
		t.Errorf("it selected %v and sent %v", list.Items, s.take())
	}
}

func TestLaw7DeleteCarriesPreconditions(t *testing.T) {
	obj := configMap("default", "web")
	obj.UID, obj.ResourceVersion = "u1", "7"
	for _, test := range []struct {
		why  string
		obj  client.Object
		opts []client.DeleteOption
		want string
	}{
		{"nothing is known", configMap("default", "web"), nil, `{}`},
		{"the UID is known", obj, nil, `{"preconditions":{"uid":"u1"}}`},
		{"unchanged", obj, []client.DeleteOption{client.IfUnchanged}, `{"preconditions":{"uid":"u1","resourceVersion":"7"}}`},
		{"other preconditions", obj, []client.DeleteOption{client.Preconditions{ResourceVersion: "5"}}, `{"preconditions":{"resourceVersion":"5"}}`},
		{"none at all", obj, []client.DeleteOption{client.Preconditions{}}, `{"preconditions":{}}`},
		{"the rest", configMap("default", "web"), []client.DeleteOption{
			client.DryRun, client.PropagationPolicy(metav1.DeletePropagationForeground), client.GracePeriod(1500 * time.Millisecond),
		}, `{"gracePeriodSeconds":2,"propagationPolicy":"Foreground","dryRun":["All"]}`},
	} {
		c, s := scripted(t, with(`{"kind":"Status","apiVersion":"v1","status":"Success"}`))
		must(t, c.Delete(t.Context(), test.obj, test.opts...))
		got := strings.Replace(s.one(t).json(t), `"kind":"DeleteOptions","apiVersion":"v1",`, "", 1)
		got = strings.Replace(got, `"kind":"DeleteOptions","apiVersion":"v1"`, "", 1)
		if got != test.want {
			t.Errorf("%s: got %s, want %s", test.why, got, test.want)
		}
	}
}

func TestLaw7FailedPreconditionSaysSo(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "web", nil)
	c, s := scripted(t, with(conflict))
	obj := configMap("default", "web")
	obj.UID = "u1"
	err := c.Delete(t.Context(), obj)
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "a precondition failed") {
		t.Errorf("got %v", err)
	}
	s.take()
	if err := c.Delete(t.Context(), configMap("default", "web"), client.IfUnchanged); err == nil || len(s.take()) != 0 {
		t.Errorf("IfUnchanged without a resourceVersion: %v", err)
	}
}

// TestLaw7OtherUIDSaysSo: the server refuses a patch that names another UID as a change of the UID.
func TestLaw7OtherUIDSaysSo(t *testing.T) {
	c, _ := scripted(t, with(apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "web", field.ErrorList{
		field.Invalid(field.NewPath("metadata", "uid"), "u1", "field is immutable"),
	})))
	obj := configMap("default", "web")
	obj.UID = "u1"
	if err := c.Apply(t.Context(), obj); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "the object is another one (UID)") {
		t.Errorf("got %v", err)
	}
}

func TestLaw6UpdateConflictNamesTheFix(t *testing.T) {
	c, _ := scripted(t, with(apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "n1", nil)))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", ResourceVersion: "5"}}
	for name, err := range map[string]error{"update": c.Update(t.Context(), node), "update status": c.Status().Update(t.Context(), node)} {
		if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "reconcile again from a fresh read, or write only the fields you own with Patch or Apply") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBug3590SubResourceCreate: the answers have no resourceVersion, or another kind, which is no error.
func TestBug3590SubResourceCreate(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-1"}}
	c, _ := scripted(t, with(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}`))
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "web-1", Namespace: "default"}}
	must(t, c.SubResource("eviction").Create(t.Context(), pod, eviction))
	if eviction.Name != "web-1" {
		t.Errorf("the eviction became %+v", eviction)
	}

	c, _ = scripted(t, with(`{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","metadata":{},"spec":{"audiences":null},"status":{"token":"secret"}}`))
	token := &authenticationv1.TokenRequest{}
	must(t, c.SubResource("token").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: pod.ObjectMeta}, token))
	if token.Status.Token != "secret" {
		t.Errorf("the token request became %+v", token)
	}

	// Kinds that have no name, cannot be listed, and come back without a revision.
	c, _ = scripted(t, with(`{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","metadata":{},"spec":{},"status":{"allowed":true}}`))
	access := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: "jane"}}
	must(t, c.Create(t.Context(), access))
	if !access.Status.Allowed {
		t.Errorf("the review became %+v", access)
	}
}

// TestBug3515TypedApply: a conflict stays recognisable, and the applied object is set to the answer.
func TestBug3515TypedApply(t *testing.T) {
	c, s := scripted(t, with(apierrors.NewApplyConflict([]metav1.StatusCause{{
		Type: metav1.CauseTypeFieldManagerConflict, Message: `conflict with "kubectl"`, Field: ".data.a",
	}}, "Apply failed with 1 conflict")))
	obj := configMap("default", "web")
	obj.Data = map[string]string{"a": "2"}
	obj.ResourceVersion = "5"
	err := c.Apply(t.Context(), obj)
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "ForceOwnership") {
		t.Errorf("got %v", err)
	}
	if got, want := s.one(t).json(t), `{"apiVersion":"v1","data":{"a":"2"},"kind":"ConfigMap","metadata":{"name":"web","namespace":"default"}}`; got != want {
		t.Errorf("sent %s, want %s", got, want)
	}
	s.answer = with(webJSON)
	must(t, c.Apply(t.Context(), obj, client.IfUnchanged))
	if obj.UID != "u1" || obj.Data["a"] != "1" {
		t.Errorf("the object was not set to the answer: %+v", obj)
	}
	if got := s.one(t).json(t); !strings.Contains(got, `"resourceVersion":"5"`) {
		t.Errorf("IfUnchanged sent %s", got)
	}
}

func TestApplyNeedsOwner(t *testing.T) {
	c, s := scripted(t, with(webJSON), func(cfg *client.Config) { cfg.FieldOwner = "" })
	if err := c.Apply(t.Context(), configMap("default", "web")); err == nil || len(s.take()) != 0 {
		t.Errorf("got %v", err)
	}
	must(t, c.Apply(t.Context(), configMap("default", "web"), client.FieldOwner("me")))
}

func TestScaleUpdate(t *testing.T) {
	c, s := scripted(t, with(`{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"web","namespace":"default","resourceVersion":"9"},"spec":{"replicas":3}}`))
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	scale := &autoscalingv1.Scale{ObjectMeta: d.ObjectMeta, Spec: autoscalingv1.ScaleSpec{Replicas: 3}}
	must(t, c.SubResource("scale").Update(t.Context(), d, client.SubResourceBody(scale)))
	if got, want := s.one(t).String(), "PUT /apis/apps/v1/namespaces/default/deployments/web/scale?fieldManager=me"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if scale.ResourceVersion != "9" || d.ResourceVersion != "" {
		t.Errorf("the scale became %+v, the deployment %+v", scale, d)
	}
}

func TestMisuse(t *testing.T) {
	c, s := scripted(t, with(webJSON))
	configMapKind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	for why, err := range map[string]error{
		"no name":                      c.Get(t.Context(), key("default", ""), &corev1.ConfigMap{}),
		"no namespace":                 c.Delete(t.Context(), configMap("", "web")),
		"no kind":                      c.Get(t.Context(), key("default", "web"), &unstructured.Unstructured{}),
		"not a list":                   c.List(t.Context(), &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}),
		"create of metadata":           c.Create(t.Context(), metadataOf(configMapKind, "default", "web")),
		"update of metadata":           c.Update(t.Context(), metadataOf(configMapKind, "default", "web")),
		"delete in all namespaces":     c.DeleteAllOf(t.Context(), &corev1.ConfigMap{}),
		"update of an unread, IfUnch.": c.Update(t.Context(), configMap("default", "web"), client.IfUnchanged),
		"a kind the server lacks":      c.Get(t.Context(), key("default", "web"), metadataOf(schema.GroupVersionKind{Group: "x", Version: "v1", Kind: "Nix"}, "", "")),
	} {
		if err == nil {
			t.Errorf("%s: no error", why)
		}
	}
	if requests := s.take(); len(requests) != 0 {
		t.Errorf("it sent %v", requests)
	}
}

func TestNewReportsBadConfig(t *testing.T) {
	if _, err := client.New(client.Config{}); err == nil {
		t.Error("no error without REST")
	}
}
