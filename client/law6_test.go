package client_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/setpoint-dev/setpoint/cache"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/internal/apitest"
)

// applied is a ConfigMap as it is after owner applied data.a, and somebody else wrote data.b.
func applied(owner string) *corev1.ConfigMap {
	obj := configMap("default", "web")
	obj.Data = map[string]string{"a": "1", "b": "2"}
	obj.ManagedFields = []metav1.ManagedFieldsEntry{
		{Manager: owner, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:a":{}}}`)},
		{Manager: "editor", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:b":{}}}`)},
	}
	return obj
}

func TestLaw6ApplyThatChangesNothingIsNotSent(t *testing.T) {
	want := func(change func(*corev1.ConfigMap)) *corev1.ConfigMap {
		obj := configMap("default", "web")
		obj.Data = map[string]string{"a": "1"}
		if change != nil {
			change(obj)
		}
		return obj
	}
	for _, test := range []struct {
		why   string
		owner string // who applied what is there
		want  *corev1.ConfigMap
		opts  []client.ApplyOption
		sent  bool
	}{
		{"the same", "me", want(nil), nil, false},
		{"the same, by force", "me", want(nil), []client.ApplyOption{client.ForceOwnership}, false},
		{"the same, of that UID", "me", want(func(o *corev1.ConfigMap) { o.UID = "00000000-0000-0000-0000-000000000002" }), nil, false},
		{"of another UID", "me", want(func(o *corev1.ConfigMap) { o.UID = "other" }), nil, true},
		{"another value", "me", want(func(o *corev1.ConfigMap) { o.Data["a"] = "2" }), nil, true},
		{"one field more, which has that value already", "me", want(func(o *corev1.ConfigMap) { o.Data["b"] = "2" }), nil, true},
		{"one field less", "me", want(func(o *corev1.ConfigMap) { o.Data = nil }), nil, true},
		{"a label more", "me", want(func(o *corev1.ConfigMap) { o.Labels = map[string]string{"a": "b"} }), nil, true},
		{"applied by another owner", "other", want(nil), nil, true},
		{"as another owner", "me", want(nil), []client.ApplyOption{client.FieldOwner("other")}, true},
		{"dry run", "me", want(nil), []client.ApplyOption{client.DryRun}, true},
	} {
		t.Run(test.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, nil, configMaps)
				there := apitest.Put(c.line.Server, applied(test.owner))
				synctest.Wait()
				c.line.take()
				err := c.Apply(t.Context(), test.want, test.opts...)
				if sent := len(c.line.take()) > 0; sent != test.sent {
					t.Fatalf("sent: %v (%v)", sent, err)
				}
				if !test.sent && (test.want.ResourceVersion != there.ResourceVersion || test.want.Data["b"] != "2") {
					t.Errorf("the object was not set to what is there: %+v", test.want)
				}
				if n := c.count(t, "setpoint_client_skipped_writes_total"); (n == 0) != test.sent {
					t.Errorf("counted %v", n)
				}
			})
		})
	}
}

// TestLaw6ApplyOfWhatTheServerWritesOtherwise: the server keeps another value than was applied, as it does
// with quantities and with defaults in values that are owned as a whole. The same apply again changes nothing.
func TestLaw6ApplyOfWhatTheServerWritesOtherwise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil, configMaps)
		c.line.admit = func(body []byte) []byte {
			owners := applied("me")
			var obj map[string]any
			must(t, json.Unmarshal(body, &obj))
			if data := obj["data"].(map[string]any); data["a"] == "1000m" {
				data["a"] = "1"
			}
			obj["metadata"].(map[string]any)["managedFields"] = owners.ManagedFields[:1]
			body, err := json.Marshal(obj)
			must(t, err)
			return body
		}
		apply := func(why, value string, want bool) {
			t.Helper()
			synctest.Wait()
			c.line.take()
			obj := configMap("default", "web")
			obj.Data = map[string]string{"a": value}
			must(t, c.Apply(t.Context(), obj))
			if sent := len(c.line.take()) > 0; sent != want {
				t.Errorf("%s: sent: %v", why, sent)
			}
		}
		change := func(field, value string) {
			theirs := configMap("default", "web")
			c.line.Server.Get(theirs)
			theirs.Data[field] = value
			apitest.Put(c.line.Server, theirs)
		}
		apply("the first", "1000m", true)
		apply("the same", "1000m", false)
		change("b", "2")
		apply("the same, while others change other fields", "1000m", false)
		change("a", "2")
		apply("the same, but somebody changed it", "1000m", true)
		apply("the same again", "1000m", false)
		apply("another", "3", true)
		apply("the first again", "1000m", true)
	})
}

// TestLaw6ApplyDoesNotTrustStaleCache: the cache shows what was there before the own write, so that applying that again is no no-op.
func TestLaw6ApplyDoesNotTrustStaleCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil, configMaps)
		apitest.Put(c.line.Server, applied("me"))
		synctest.Wait()
		c.line.hold()
		defer c.line.release()
		obj := configMap("default", "web")
		obj.Data = map[string]string{"a": "2"}
		must(t, c.Apply(t.Context(), obj))
		c.line.take()
		obj = configMap("default", "web")
		obj.Data = map[string]string{"a": "1"}
		must(t, c.Apply(t.Context(), obj))
		if len(c.line.take()) == 0 {
			t.Error("the apply that undoes the last one was not sent")
		}
	})
}

// TestLaw6UpdateDoesNotTrustStaleCache: an old copy, which equals what the cache still has, is not what the server has.
func TestLaw6UpdateDoesNotTrustStaleCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil, configMaps)
		apitest.Put(c.line.Server, applied("me"))
		synctest.Wait()
		old := configMap("default", "web")
		must(t, c.Get(t.Context(), client.KeyOf(old), old))
		c.line.hold()
		defer c.line.release()
		now := old.DeepCopy()
		now.Data = map[string]string{"a": "2"}
		must(t, c.Update(t.Context(), now))
		if err := c.Update(t.Context(), old); !apierrors.IsConflict(err) {
			t.Errorf("got %v, want the server's conflict", err)
		}
	})
}

func TestLaw6UpdateThatChangesNothingIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil, configMaps, widgetKind)
		apitest.Put(c.line.Server, applied("me"))
		w := widget("default", "web")
		w.Object["spec"] = map[string]any{"n": int64(1)}
		w.Object["status"] = map[string]any{"n": int64(1)}
		apitest.Put(c.line.Server, w)
		synctest.Wait()
		c.line.take()
		sends := func(why string, want bool, err error) {
			t.Helper()
			if sent := len(c.line.take()) > 0; sent != want || err != nil {
				t.Errorf("%s: sent: %v, %v", why, sent, err)
			}
			synctest.Wait()
		}
		obj := &corev1.ConfigMap{}
		must(t, c.Get(t.Context(), key("default", "web"), obj))
		sends("unchanged", false, c.Update(t.Context(), obj))
		obj.Data["a"] = "2"
		sends("changed", true, c.Update(t.Context(), obj))
		sends("unchanged again", false, c.Update(t.Context(), obj))

		u := widget("", "")
		must(t, c.Get(t.Context(), key("default", "web"), u))
		sends("status unchanged", false, c.Status().Update(t.Context(), u))
		u.Object["spec"] = map[string]any{"n": int64(2)}
		sends("status unchanged, the spec does not count", false, c.Status().Update(t.Context(), u))
		must(t, unstructured.SetNestedField(u.Object, int64(2), "status", "n"))
		sends("status changed", true, c.Status().Update(t.Context(), u))
		u.SetResourceVersion("")
		sends("of no certain version", true, c.Status().Update(t.Context(), u))
	})
}

func TestLaw6UpdateThatCarriesStatusWarns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		u := apitest.Put(c.line.Server, widget("default", "web"))
		u.Object["spec"] = map[string]any{"n": int64(1)}
		must(t, c.Update(t.Context(), u))
		if c.log.Len() > 0 {
			t.Errorf("it warns of a spec: %s", c.log)
		}
		u.Object["spec"] = map[string]any{"n": int64(2)}
		u.Object["status"] = map[string]any{"n": int64(2)}
		must(t, c.Update(t.Context(), u))
		if !strings.Contains(c.log.String(), "an Update carried a changed status") {
			t.Errorf("no warning: %s", c.log)
		}
	})
}

func TestStatusApplySendsStatusAlone(t *testing.T) {
	c, s := scripted(t, with(`{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"web","namespace":"default"}}`))
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: appsv1.DeploymentSpec{Paused: true}}
	d.Status.Replicas = 3
	must(t, c.Status().Apply(t.Context(), d))
	want := `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"default"},"status":{"replicas":3}}`
	if got := s.one(t).json(t); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestLaw6TransformedIsNotTrusted: what a transform made of an object is not what the server has.
func TestLaw6TransformedIsNotTrusted(t *testing.T) {
	change := func(obj runtime.Object) error {
		obj.(*corev1.ConfigMap).Data = map[string]string{"a": "1"}
		return nil
	}
	for why, write := range map[string]func(*testing.T, *cluster) error{
		"update": func(t *testing.T, c *cluster) error {
			obj := configMap("default", "web")
			must(t, c.Get(t.Context(), client.KeyOf(obj), obj))
			return c.Update(t.Context(), obj)
		},
		"apply": func(t *testing.T, c *cluster) error {
			obj := configMap("default", "web")
			obj.Data = map[string]string{"a": "1"}
			return c.Apply(t.Context(), obj)
		},
		"status": func(t *testing.T, c *cluster) error {
			obj := configMap("default", "web")
			must(t, c.Get(t.Context(), client.KeyOf(obj), obj))
			return c.Status().Update(t.Context(), obj)
		},
	} {
		t.Run(why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, limited(cache.Options{Transform: change}), configMaps)
				there := applied("me")
				there.Data["a"] = "2"
				apitest.Put(c.line.Server, there)
				synctest.Wait()
				c.line.take()
				if err := write(t, c); err != nil {
					t.Fatal(err)
				}
				if sent := c.line.take(); len(sent) != 1 {
					t.Errorf("sent %v", sent)
				}
			})
		})
	}
}
