package test

import (
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/plane"
	"github.com/setpoint-dev/setpoint/plane/manifest"
	"github.com/setpoint-dev/setpoint/plane/planetest"
)

// eachRuleNeeded shows that the Roles and ClusterRoles in a manifest are the least that an operator needs. On a plane,
// which enforces them, the scenario must work with all their rules and must use every verb of every resource in them, so
// that it fails when one is taken out of the manifest. With SETPOINT_EACH_RULE set (`make conformance`) that is tried with
// each rule. Each time the scenario has a plane of its own, and virtual time, in which it costs nothing to wait in vain.
//
// The scenario installs whatever else is needed, runs the operator with the configuration, which acts as the manifest's
// ServiceAccount, and waits for all that the operator is to do, Events included. Its cleanups end the operator.
func eachRuleNeeded(t *testing.T, config plane.Config, rbac string, scenario func(t testing.TB, p planetest.Cluster, operator *rest.Config)) {
	t.Helper()
	objects, err := manifest.Decode([]byte(rbac))
	if err != nil {
		t.Fatal(err)
	}
	t.Run("with all rules", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			used := rightsLog{seen: sets.New[string]()}
			p, operator := planeWithRights(t, config, objects)
			operator.Wrap(used.wrap)
			scenario(t, p, operator)
			for _, right := range used.unused(t, objects) {
				t.Errorf("the scenario does not need the right to %s", right)
			}
		})
	})
	if os.Getenv("SETPOINT_EACH_RULE") == "" {
		return
	}
	for rule, less := range eachRuleRemoved(t, objects) {
		t.Run("without "+rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, operator := planeWithRights(t, config, less)
				if !fails(t, func(t testing.TB) { scenario(t, p, operator) }) {
					t.Error("it is not needed: the scenario works all the same")
				}
			})
		})
	}
}

// planeWithRights returns a plane to which the objects were applied, and what acts as the ServiceAccount among them.
func planeWithRights(t *testing.T, config plane.Config, objects []*unstructured.Unstructured) (planetest.Cluster, *rest.Config) {
	t.Helper()
	p := planetest.Start(t, config)
	applier, err := manifest.NewApplier(p.RESTConfig(), planetest.FieldManager)
	if err != nil {
		t.Fatal(err)
	}
	if err := applier.Apply(t.Context(), objects...); err != nil {
		t.Fatal(err)
	}
	for _, obj := range objects {
		if obj.GetKind() == "ServiceAccount" {
			operator := p.RESTConfig()
			operator.Impersonate.UserName = fmt.Sprintf("system:serviceaccount:%s:%s", obj.GetNamespace(), obj.GetName())
			return p, operator
		}
	}
	t.Fatal("there is no ServiceAccount in the manifest")
	return nil, nil
}

// rulesOf returns the rules of a Role or ClusterRole, and none of anything else.
func rulesOf(t *testing.T, obj *unstructured.Unstructured) []rbacv1.PolicyRule {
	t.Helper()
	if kind := obj.GetKind(); kind != "Role" && kind != "ClusterRole" {
		return nil
	}
	var role rbacv1.ClusterRole // has all that a Role has
	if err := kruntime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &role); err != nil {
		t.Fatal(err)
	}
	return role.Rules
}

// eachRuleRemoved returns the objects without one of their rules, by the text of that rule.
func eachRuleRemoved(t *testing.T, objects []*unstructured.Unstructured) map[string][]*unstructured.Unstructured {
	t.Helper()
	out := map[string][]*unstructured.Unstructured{}
	for i, obj := range objects {
		for j, rule := range rulesOf(t, obj) {
			less := append([]*unstructured.Unstructured(nil), objects...)
			less[i] = obj.DeepCopy()
			rules := less[i].Object["rules"].([]any)
			less[i].Object["rules"] = append(rules[:j:j], rules[j+1:]...)
			text := fmt.Sprintf("%s %s of %s", obj.GetKind(), strings.Join(rule.Verbs, " "), strings.Join(rule.Resources, " "))
			if out[text] != nil {
				t.Fatalf("the manifest has the rule %q twice", text)
			}
			out[text] = less
		}
	}
	return out
}

// rightsIn returns all that the rules among the objects allow, each as "verb group/resource".
func rightsIn(t *testing.T, objects []*unstructured.Unstructured) sets.Set[string] {
	t.Helper()
	out := sets.New[string]()
	for _, obj := range objects {
		for _, rule := range rulesOf(t, obj) {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						out.Insert(fmt.Sprintf("%s %s/%s", verb, group, resource))
					}
				}
			}
		}
	}
	return out
}

// rightsLog notes which rights the requests that pass it need.
type rightsLog struct {
	mu   sync.Mutex
	seen sets.Set[string]
}

func (l *rightsLog) wrap(next http.RoundTripper) http.RoundTripper {
	resolver := &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		info, err := resolver.NewRequestInfo(r)
		if err != nil {
			return nil, err
		}
		response, err := next.RoundTrip(r)
		resource := info.Resource
		if info.Subresource != "" {
			resource += "/" + info.Subresource
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.seen.Insert(fmt.Sprintf("%s %s/%s", info.Verb, info.APIGroup, resource))
		if info.Verb == "watch" { // of a server that cannot begin a watch with what there is, the cache needs a list first
			l.seen.Insert(fmt.Sprintf("list %s/%s", info.APIGroup, resource))
		}
		if err == nil && info.Verb == "patch" && response.StatusCode == http.StatusCreated { // an apply that creates
			l.seen.Insert(fmt.Sprintf("create %s/%s", info.APIGroup, resource))
		}
		return response, err
	})
}

// unused returns those of the rights in the rules among the objects that no request needed so far.
func (l *rightsLog) unused(t *testing.T, objects []*unstructured.Unstructured) []string {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	return sets.List(rightsIn(t, objects).Difference(l.seen))
}

// fails reports whether a test that is not to count fails.
func fails(t testing.TB, test func(testing.TB)) bool {
	attempt := &attempt{TB: t}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		test(attempt)
	}()
	<-ended
	return attempt.Failed()
}

// attempt is a test whose failure is wanted. Its cleanups are the real test's.
type attempt struct {
	testing.TB
	mu     sync.Mutex
	failed bool
}

func (a *attempt) Failed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failed
}

func (a *attempt) Fail() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failed = true
}

func (a *attempt) FailNow() {
	a.Fail()
	runtime.Goexit()
}

func (a *attempt) Error(...any)          { a.Fail() }
func (a *attempt) Errorf(string, ...any) { a.Fail() }
func (a *attempt) Fatal(...any)          { a.FailNow() }
func (a *attempt) Fatalf(string, ...any) { a.FailNow() }
