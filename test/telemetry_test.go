package test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/lease"
	"github.com/setpoint-dev/setpoint/operators/foo"
	"github.com/setpoint-dev/setpoint/plane/manifest"
	"github.com/setpoint-dev/setpoint/plane/planetest"
	"github.com/setpoint-dev/setpoint/telemetry"
	"github.com/setpoint-dev/setpoint/telemetry/debug"
)

// observedFoo runs the Foo operator with its debug endpoint until the test ends.
func observedFoo(t *testing.T, p planetest.Cluster, change func(*setpoint.Config)) *setpoint.Manager {
	t.Helper()
	scheme := fooScheme(t)
	planetest.Apply(t, p, "../operators/foo/manifests/sample.setpoint.dev_foos.yaml")
	planetest.Apply(t, p, "../operators/foo/manifests/rbac.yaml")
	cfg := setpoint.Config{
		REST: p.RESTConfig(), Scheme: scheme, FieldOwner: "setpoint-foo", Seed: 1, Debug: true,
		LeaderElection: &lease.Config{Namespace: "setpoint-system"},
	}
	change(&cfg)
	m, err := setpoint.NewManager(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := foo.Setup(m); err != nil {
		t.Fatal(err)
	}
	begin(t, m)
	return m
}

// fetch reads a path of a manager's handler, with a bearer token if there is one.
func fetch(m *setpoint.Manager, path, token string) (int, string) {
	req := httptest.NewRequest(http.MethodGet, path, nil)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, req)
	return w.Code, w.Body.String()
}

// tokenOf makes a ServiceAccount and returns a token of it.
func tokenOf(t *testing.T, user *client.Client, name string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if err := user.Create(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	request := &authenticationv1.TokenRequest{}
	if err := user.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// bind gives a ServiceAccount a ClusterRole.
func bind(t *testing.T, user *client.Client, namespace, account, role string) *rbacv1.ClusterRoleBinding {
	t.Helper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account + "-" + strings.ReplaceAll(role, ":", "-")},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: account}},
	}
	if err := user.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	return binding
}

// Metrics and debug endpoint are for those whom the API server knows and RBAC allows it, and for nobody else: the anonymous
// and unknown are answered 401, a ServiceAccount without the right 403. A right that is taken away is gone within a minute.
func TestMetricsAccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := planetest.New(t)
		m := observedFoo(t, p, func(cfg *setpoint.Config) {
			cfg.MetricsAccess = telemetry.GuardAll
			cfg.REST.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:setpoint-system:setpoint-foo"}
		})
		user := newUser(t, p.RESTConfig())
		allowed, other := tokenOf(t, user, "allowed"), tokenOf(t, user, "other")
		role := &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: "reads-metrics"},
			Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics", "/debug/setpoint", "/debug/setpoint/*"}, Verbs: []string{"get"}}},
		}
		if err := user.Create(t.Context(), role); err != nil {
			t.Fatal(err)
		}
		binding := bind(t, user, "default", "allowed", role.Name)
		time.Sleep(time.Second) // the authorizer has seen it
		expect := func(when, path, token string, code int, text string) {
			t.Helper()
			if got, body := fetch(m, path, token); got != code || !strings.Contains(body, text) {
				t.Errorf("%s: %s: %d, want %d with %q:\n%s", when, path, got, code, text, body)
			}
		}
		expect("the operator may not review tokens", "/metrics", allowed, 503, "could not be asked")
		bind(t, user, "setpoint-system", "setpoint-foo", "system:auth-delegator")
		time.Sleep(time.Second)
		for _, path := range []string{"/metrics", debug.PathOverview, debug.PathRoles, debug.PathObject + "?kind=Foo&namespace=default&name=none"} {
			expect("anonymous", path, "", 401, "a bearer token is needed")
			expect("unknown", path, allowed+"x", 401, "not known")
			expect("without the right", path, other, 403, "system:serviceaccount:default:other may not get /")
		}
		expect("allowed", "/metrics", allowed, 200, `controller_runtime_reconcile_total{controller="foo",result="success"}`)
		expect("allowed", debug.PathOverview, allowed, 200, `"name": "foo"`)
		expect("allowed", debug.PathRoles, allowed, 200, "kind: ClusterRole")
		expect("health is for everyone", "/readyz", "", 200, "ok")

		if err := user.Delete(t.Context(), binding); err != nil {
			t.Fatal(err)
		}
		time.Sleep(61 * time.Second)
		expect("not allowed any more", "/metrics", allowed, 403, "may not get")
	})
}

// A trace leads from the write of a Foo through the queue to the writes of its reconcile.
func TestTraceOfAFoo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := planetest.New(t)
		spans := tracetest.NewInMemoryExporter()
		provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
		m := observedFoo(t, p, func(cfg *setpoint.Config) { cfg.Tracer = provider })
		time.Sleep(time.Minute) // it leads

		ctx, span := provider.Tracer("user").Start(t.Context(), "a user's work")
		f := newFoo("traced", 2)
		if err := m.Client().Create(ctx, f); err != nil {
			t.Fatal(err)
		}
		span.End()
		planetest.Wait(t, p, f, available)
		time.Sleep(time.Second)

		recorded := spans.GetSpans()
		path := []struct{ name, key, value string }{
			{"a user's work", "", ""},
			{"create foos.sample.setpoint.dev", "setpoint.request.name", "traced"},
			{"queue foo", "setpoint.object.name", "traced"},
			{"reconcile foo", "setpoint.object.name", "traced"},
			{"create deployments.apps", "setpoint.request.name", "traced"},
		}
		parent := trace.SpanContext{}
		for _, step := range path {
			i := slices.IndexFunc(recorded, func(s tracetest.SpanStub) bool {
				has := step.key == "" || slices.Contains(s.Attributes, attribute.String(step.key, step.value))
				return s.Name == step.name && s.Parent.SpanID() == parent.SpanID() && has
			})
			if i < 0 {
				t.Fatalf("no span %q below the last one; there are:\n%s", step.name, spanNames(recorded))
			}
			if parent = recorded[i].SpanContext; parent.TraceID() != span.SpanContext().TraceID() {
				t.Errorf("%q is in another trace", step.name)
			}
		}
		for _, s := range recorded {
			if s.Name == "reconcile foo" && len(s.Links) == 0 && s.SpanContext.TraceID() == parent.TraceID() {
				t.Errorf("a reconcile has no link to the write that caused it: %v", s.Attributes)
			}
		}
	})
}

func spanNames(spans tracetest.SpanStubs) string {
	var lines []string
	for _, s := range spans {
		lines = append(lines, fmt.Sprintf("%s in %s below %s %v", s.Name, s.SpanContext.TraceID(), s.Parent.SpanID(), s.Attributes))
	}
	return strings.Join(lines, "\n")
}

// The debug endpoint tells a Foo's story, and computes the rights that the operator uses: none but those that it ships with.
func TestStoryAndRolesOfFoo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := planetest.New(t)
		m := observedFoo(t, p, func(cfg *setpoint.Config) {
			cfg.REST.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:setpoint-system:setpoint-foo"}
		})
		user := newFooUser(t, p)
		f := newFoo("web", 2)
		if err := user.Create(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		planetest.Wait(t, p, f, available)
		time.Sleep(time.Second)
		// A story has only the last reconciles, so it is told soon after something that they write.
		mergePatch(t, user, deploymentNamed("web"), `{"metadata":{"labels":{"app.kubernetes.io/name":"drifted"}}}`)
		time.Sleep(time.Second)

		var story debug.Story
		code, body := fetch(m, debug.PathObject+"?kind=foo&namespace=default&name=web", "")
		if err := json.Unmarshal([]byte(body), &story); code != 200 || err != nil || len(story.Controllers) != 1 {
			t.Fatalf("%d %v: %s", code, err, body)
		}
		chapter := story.Controllers[0]
		wrote := map[string]bool{}
		for _, r := range chapter.Reconciles {
			for _, w := range r.Writes {
				wrote[strings.TrimSpace(w.Verb+" "+w.Subresource+" "+w.Kind+" "+w.Object)] = true
			}
		}
		if !chapter.Held || !wrote["apply  Deployment.apps default/web"] || len(chapter.Reconciles) < 2 || chapter.Reconciles[0].Result != "success" {
			t.Errorf("wrote %v; %s", wrote, body)
		}

		rights := func(roles string) sets.Set[string] {
			objects, err := manifest.Decode([]byte(roles))
			if err != nil {
				t.Fatalf("%v in:\n%s", err, roles)
			}
			return rightsIn(t, objects)
		}
		shipped, computed := rights(foo.RBAC()), rights(m.Roles())
		if more := computed.Difference(shipped); len(more) > 0 {
			t.Errorf("more than the operator ships with: %v\n%s", sets.List(more), m.Roles())
		}
		for _, right := range []string{"create apps/deployments", "patch sample.setpoint.dev/foos/status", "watch sample.setpoint.dev/foos", "update coordination.k8s.io/leases"} {
			if !computed.Has(right) {
				t.Errorf("no right to %s:\n%s", right, m.Roles())
			}
		}
		if strings.Contains(m.Roles(), "Refused") {
			t.Errorf("requests were refused:\n%s", m.Roles())
		}
	})
}

func newFooUser(t *testing.T, p planetest.Cluster) *client.Client {
	t.Helper()
	user, err := client.New(client.Config{REST: p.RESTConfig(), Scheme: fooScheme(t), FieldOwner: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return user
}
