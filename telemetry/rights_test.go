package telemetry_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/telemetry"
)

func TestRights(t *testing.T) {
	for _, test := range []struct{ method, url, want string }{
		{"GET", "/api/v1/pods", "list pods in [all]"},
		{"GET", "/api/v1/pods?watch=true", "watch pods in [all]"},
		{"GET", "/api/v1/namespaces/a/pods", "list pods in [a]"},
		{"GET", "/api/v1/namespaces/a/pods/p", "get pods in [a]"},
		{"GET", "/api/v1/namespaces/a/pods/p/log", "get pods/log in [a]"},
		{"HEAD", "/api/v1/namespaces/a/pods/p", "get pods in [a]"},
		{"POST", "/apis/apps/v1/namespaces/a/deployments", "create deployments.apps in [a]"},
		{"PUT", "/apis/apps/v1/namespaces/a/deployments/d/status", "update deployments/status.apps in [a]"},
		{"PATCH", "/apis/apps/v1/namespaces/a/deployments/d", "patch deployments.apps in [a]"},
		{"DELETE", "/apis/apps/v1/namespaces/a/deployments/d", "delete deployments.apps in [a]"},
		{"DELETE", "/apis/apps/v1/namespaces/a/deployments", "deletecollection deployments.apps in [a]"},
		{"GET", "/api/v1/namespaces", "list namespaces in [all]"},
		{"GET", "/api/v1/namespaces/a", "get namespaces in [all]"},
		{"PUT", "/api/v1/namespaces/a/finalize", "update namespaces/finalize in [all]"},
		{"PATCH", "/api/v1/namespaces/a/status", "patch namespaces/status in [all]"},
		{"GET", "/apis/example.com/v1/namespaces/a/status", "list status.example.com in [a]"},
		{"GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/r", "get clusterroles.rbac.authorization.k8s.io in [all]"},
		{"GET", "/api", ""}, {"GET", "/api/v1", ""}, {"GET", "/apis/apps/v1", ""}, {"GET", "/version", ""},
		{"GET", "/openapi/v3", ""}, {"OPTIONS", "/api/v1/pods", ""},
	} {
		for _, root := range []string{"", "/k8s/clusters/c-1"} {
			rights := telemetry.NewRights("https://api:6443" + root + "/")
			req := httptest.NewRequest(test.method, "https://api:6443"+root+test.url, nil)
			if _, err := rights.Wrap(answers{code: 200}).RoundTrip(req); err != nil {
				t.Fatal(err)
			}
			if got := said(rights); got != test.want {
				t.Errorf("%s %s%s: %q, want %q", test.method, root, test.url, got, test.want)
			}
		}
	}
}

// said says the uses in a line each.
func said(rights *telemetry.Rights) string {
	var lines []string
	for _, u := range rights.Uses() {
		name := u.Resource
		if u.Group != "" {
			name += "." + u.Group
		}
		namespaces := strings.ReplaceAll(fmt.Sprintf("%v", u.Namespaces), "[]", "[all]")
		lines = append(lines, fmt.Sprintf("%s %s in %s", u.Verb, name, namespaces))
	}
	return strings.Join(lines, "\n")
}

// Uses are counted, refusals too, and what is kept is bounded.
func TestRightsAreCountedAndBounded(t *testing.T) {
	rights := telemetry.NewRights("https://api")
	send := func(code int, err error, path string) {
		t.Helper()
		_, got := rights.Wrap(answers{code: code, err: err}).RoundTrip(httptest.NewRequest(http.MethodGet, "https://api"+path, nil))
		if !errors.Is(got, err) {
			t.Fatalf("%v, want %v", got, err)
		}
	}
	send(200, nil, "/api/v1/namespaces/b/pods/p")
	send(403, nil, "/api/v1/namespaces/a/pods/p")
	send(0, errors.New("cut"), "/api/v1/namespaces/a/pods/q")
	uses := rights.Uses()
	if len(uses) != 1 || uses[0].Requests != 3 || uses[0].Refused != 1 || fmt.Sprint(uses[0].Namespaces) != "[a b]" || uses[0].Many {
		t.Errorf("%+v", uses)
	}
	for n := range 100 {
		send(200, nil, fmt.Sprintf("/api/v1/namespaces/n%d/pods/p", n))
	}
	if u := rights.Uses()[0]; !u.Many || len(u.Namespaces) > 20 || u.Requests != 103 {
		t.Errorf("%+v", u)
	}
	for n := range 3000 {
		send(200, nil, fmt.Sprintf("/api/v1/r%d", n))
	}
	if n := len(rights.Uses()); n != 2000 {
		t.Errorf("%d rights are kept", n)
	}
}
