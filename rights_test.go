package setpoint_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/cache"
	"github.com/setpoint-dev/setpoint/internal/apitest"
	"github.com/setpoint-dev/setpoint/telemetry"
	"github.com/setpoint-dev/setpoint/telemetry/debug"
)

// The roles have what was used, what is declared, marked as long as it was not
// seen, and what finalizers need.
func TestRoles(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps, apitest.Secrets, apitest.Leases)
		held := configMap("default", "held")
		held.Finalizers = []string{"example.com/bucket"}
		apitest.Put(server, held)
		r := newRig(t, server, debugging, elected("a"), func(cfg *setpoint.Config) { cfg.MetricsAccess = telemetry.GuardAll })
		setpoint.For[*corev1.ConfigMap](r.m, "copy").Owns(&corev1.Secret{}).
			Reconcile(func(ctx context.Context, o *corev1.ConfigMap) (setpoint.Result, error) {
				return setpoint.Result{}, r.m.Client().Create(ctx, secret(o.Name))
			})
		r.m.Events("copy")
		r.start()
		settle(time.Minute)
		roles := r.m.Roles()
		if diff := cmp.Diff(strings.Split(rolesOfCopy, "\n"), strings.Split("\n"+roles, "\n")); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
		for document := range strings.SplitSeq(roles, "---\n") {
			var role rbacv1.ClusterRole
			if err := yaml.UnmarshalStrict([]byte(document), &role); err != nil || len(role.Rules) == 0 {
				t.Errorf("%v in:\n%s", err, document)
			}
		}
	})
}

const rolesOfCopy = `
# What the program needs, from what it was seen to do and what it declares. A path that has not run may need more.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: "test"
rules:
# Not seen yet: get, list (For ConfigMap).
# Not seen yet: patch (finalizers).
- apiGroups: [""]
  resources: ["configmaps"]
  verbs: ["get", "list", "watch", "patch"]
# Not seen yet: update (owner references).
- apiGroups: [""]
  resources: ["configmaps/finalizers"]
  verbs: ["update"]
# Not seen yet: get, list (Owns Secret).
# Not seen, and left out: patch, delete.
- apiGroups: [""]
  resources: ["secrets"]
  verbs: ["get", "list", "watch", "create"]
# Not seen yet: create (guard of the metrics).
- apiGroups: ["authentication.k8s.io"]
  resources: ["tokenreviews"]
  verbs: ["create"]
# Not seen yet: create (guard of the metrics).
- apiGroups: ["authorization.k8s.io"]
  resources: ["subjectaccessreviews"]
  verbs: ["create"]
# Not seen yet: create, patch (Events).
- apiGroups: ["events.k8s.io"]
  resources: ["events"]
  verbs: ["create", "patch"]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  namespace: "default"
  name: "test"
rules:
- apiGroups: ["coordination.k8s.io"]
  resources: ["leases"]
  verbs: ["create"]
- apiGroups: ["coordination.k8s.io"]
  resources: ["leases"]
  resourceNames: ["test"]
  verbs: ["get", "update"]
`

// Where the cache is limited to namespaces, the rights are, too.
func TestRolesInNamespaces(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps)
		apitest.Put(server, configMap("a", "web"))
		r := newRig(t, server, debugging, func(cfg *setpoint.Config) { cfg.DefaultCache = cache.Options{Namespaces: []string{"a", "b"}} })
		setpoint.For[*corev1.ConfigMap](r.m, "touch").Reconcile(func(ctx context.Context, o *corev1.ConfigMap) (setpoint.Result, error) {
			metav1.SetMetaDataLabel(&o.ObjectMeta, "touched", "yes")
			return setpoint.Result{}, r.m.Client().Update(ctx, o)
		})
		r.start()
		settle(time.Second)
		code, body := r.get(debug.PathRoles)
		if code != http.StatusOK {
			t.Fatalf("%d %s", code, body)
		}
		const rest = "# Not seen yet: get, list (For ConfigMap).\n- apiGroups: [\"\"]\n  resources: [\"configmaps\"]\n  verbs: [\"get\", \"list\", \"watch\""
		if strings.Contains(body, "ClusterRole") || strings.Count(body, "kind: Role") != 2 ||
			!strings.Contains(body, "namespace: \"a\"\n  name: \"test\"\nrules:\n"+rest+", \"update\"]") ||
			!strings.Contains(body, "namespace: \"b\"\n  name: \"test\"\nrules:\n"+rest+"]") {
			t.Errorf("roles:\n%s", body)
		}
	})
}
