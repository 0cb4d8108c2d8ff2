package applyset_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/apply/applyset"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/internal/apitest"
	"github.com/setpoint-dev/setpoint/owner"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func configMap(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func secret(namespace, name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func parent() *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
}

func setUp(t *testing.T) (*client.Client, *apitest.Server, *appsv1.Deployment) {
	t.Helper()
	server := apitest.New(apitest.ConfigMaps, apitest.Secrets, apitest.Deployments)
	c, err := client.New(client.Config{REST: server.REST(), FieldOwner: "me"})
	must(t, err)
	return c, server, apitest.Put(server, parent())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// expect checks what is on the server, as "kind namespace/name".
func expect(t *testing.T, c *client.Client, want ...string) {
	t.Helper()
	var got []string
	var configMaps corev1.ConfigMapList
	must(t, c.List(t.Context(), &configMaps))
	for i := range configMaps.Items {
		got = append(got, "ConfigMap "+client.KeyOf(&configMaps.Items[i]).String())
	}
	var secrets corev1.SecretList
	must(t, c.List(t.Context(), &secrets))
	for i := range secrets.Items {
		got = append(got, "Secret "+client.KeyOf(&secrets.Items[i]).String())
	}
	if !slices.Equal(got, want) {
		t.Errorf("there is %q, want %q", got, want)
	}
}

func TestFormerMembersAreDeleted(t *testing.T) {
	c, server, web := setUp(t)
	apitest.Put(server, configMap("default", "bystander"))
	must(t, applyset.Apply(t.Context(), c, web, configMap("default", "a"), configMap("default", "b"), secret("other", "s")))
	expect(t, c, "ConfigMap default/a", "ConfigMap default/b", "ConfigMap default/bystander", "Secret other/s")
	if got, want := web.Annotations[applyset.Annotation], "default/ConfigMap,other/Secret"; got != want {
		t.Errorf("the annotation is %q, want %q", got, want)
	}
	a := configMap("default", "a")
	if server.Get(a); !owner.IsControlledBy(a, web) {
		t.Errorf("the member is %+v", a)
	}
	must(t, applyset.Apply(t.Context(), c, web, configMap("default", "b")))
	expect(t, c, "ConfigMap default/b", "ConfigMap default/bystander")
	if got, want := web.Annotations[applyset.Annotation], "default/ConfigMap"; got != want {
		t.Errorf("the annotation is %q, want %q", got, want)
	}
	must(t, applyset.Apply(t.Context(), c, web))
	expect(t, c, "ConfigMap default/bystander")
	if len(web.Annotations) > 0 {
		t.Errorf("the annotations are %v", web.Annotations)
	}
}

func TestNothingIsDeletedWhileMembersFail(t *testing.T) {
	c, server, web := setUp(t)
	must(t, applyset.Apply(t.Context(), c, web, configMap("default", "a")))
	server.Intercept(func(r apitest.Request) error {
		if r.Verb == "patch" && r.Name == "broken" {
			return apierrors.NewBadRequest("broken")
		}
		return nil
	})
	err := applyset.Apply(t.Context(), c, web, secret("default", "broken"), configMap("default", "b"))
	if err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("got %v", err)
	}
	expect(t, c, "ConfigMap default/a", "ConfigMap default/b")
	server.Intercept(nil)
	must(t, applyset.Apply(t.Context(), c, web, secret("default", "broken"), configMap("default", "b")))
	expect(t, c, "ConfigMap default/b", "Secret default/broken")
}

// TestCrashLosesNoMember stops a run after each of its writes; the next run, which no longer knows the kind, cleans up.
func TestCrashLosesNoMember(t *testing.T) {
	for crash := range 6 {
		c, server, web := setUp(t)
		writes := 0
		server.Intercept(func(r apitest.Request) error {
			if r.Verb == "patch" || r.Verb == "delete" {
				if writes++; writes > crash {
					return apierrors.NewServiceUnavailable("crashed")
				}
			}
			return nil
		})
		_ = applyset.Apply(t.Context(), c, web, configMap("default", "a"), secret("default", "s"))
		server.Intercept(nil)
		server.Get(web)
		must(t, applyset.Apply(t.Context(), c, web, configMap("default", "b")))
		expect(t, c, "ConfigMap default/b")
	}
}

// TestLaw8SuccessorOfTheParentOwnsNothing: members belong to the parent's UID.
func TestLaw8SuccessorOfTheParentOwnsNothing(t *testing.T) {
	c, server, web := setUp(t)
	must(t, applyset.Apply(t.Context(), c, web, configMap("default", "a")))
	server.Delete(web)
	successor := apitest.Put(server, parent())
	successor.Annotations = web.Annotations
	must(t, applyset.Apply(t.Context(), c, apitest.Put(server, successor), configMap("default", "b")))
	expect(t, c, "ConfigMap default/a", "ConfigMap default/b")
}

func TestStrangersAreLeftAlone(t *testing.T) {
	c, server, web := setUp(t)
	must(t, applyset.Apply(t.Context(), c, web, configMap("default", "a")))
	stranger := configMap("default", "copied")
	stranger.Labels = map[string]string{applyset.Label: string(web.UID)}
	stranger.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "x", UID: "somebody", Controller: pointer(true)}}
	apitest.Put(server, stranger)
	must(t, applyset.Apply(t.Context(), c, web, configMap("default", "a")))
	expect(t, c, "ConfigMap default/a", "ConfigMap default/copied")
}

func pointer[T any](v T) *T { return &v }

func TestMisuse(t *testing.T) {
	c, server, web := setUp(t)
	server.Requests()
	for why, err := range map[string]error{
		"a parent that is not there": applyset.Apply(t.Context(), c, parent(), configMap("default", "a")),
		"a member twice":             applyset.Apply(t.Context(), c, web, configMap("default", "a"), configMap("default", "a")),
		"no member of a known kind":  applyset.Apply(t.Context(), c, web, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}),
	} {
		if err == nil {
			t.Errorf("%s: no error", why)
		}
	}
	expect(t, c)
}

func Example() {
	ctx := context.Background()
	server := apitest.New(apitest.ConfigMaps, apitest.Deployments)
	c, err := client.New(client.Config{REST: server.REST(), FieldOwner: "example"})
	if err != nil {
		fmt.Println(err)
		return
	}
	web := apitest.Put(server, parent())
	fmt.Println(applyset.Apply(ctx, c, web, configMap("default", "colours"), configMap("default", "sizes")), server.Count(apitest.ConfigMaps))
	fmt.Println(applyset.Apply(ctx, c, web, configMap("default", "sizes")), server.Count(apitest.ConfigMaps))
	fmt.Println(web.Annotations)
	// Output:
	// <nil> 2
	// <nil> 1
	// map[applyset.setpoint.dev/places:default/ConfigMap]
}
