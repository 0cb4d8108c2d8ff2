package client_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/cache"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/internal/apitest"
)

// limited returns the options that limit ConfigMaps.
func limited(o cache.Options) map[schema.GroupKind]cache.Options {
	return map[schema.GroupKind]cache.Options{configMaps.GroupKind(): o}
}

// marked is a ConfigMap that the field selector data.in=yes selects.
func marked(namespace, name string) *corev1.ConfigMap {
	obj := configMap(namespace, name)
	obj.Data = map[string]string{"in": "yes"}
	return obj
}

var inByField = fields.OneTermEqualSelector("data.in", "yes")

// forbidClusterWide makes the server refuse to list or watch all namespaces at once.
func forbidClusterWide(r apitest.Request) error {
	if r.Namespace == "" && r.Resource == "configmaps" && (r.Verb == "list" || r.Verb == "watch") {
		return apierrors.NewForbidden(schema.GroupResource{Resource: r.Resource}, "", nil)
	}
	return nil
}

func annotate(n int) client.Patch {
	return client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"n":"%d"}}}`, n))
}

// TestLaw5LimitedByField: metadata do not tell whether a field selector selects their object. No read waits in vain for
// that, and none misses an object that is there.
func TestLaw5LimitedByField(t *testing.T) {
	whole := func() client.Object { return &corev1.ConfigMap{} }
	partial := func() client.Object { return metadataOf(configMaps, "default", "web") }
	for what, into := range map[string]func() client.Object{"typed": whole, "metadata": partial} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, limited(cache.Options{Fields: inByField}), configMaps)
				must(t, c.Create(t.Context(), marked("default", "web")))
				must(t, c.Patch(t.Context(), metadataOf(configMaps, "default", "web"), annotate(1)))
				got := into()
				took, err := timed(func() error { return c.Get(t.Context(), key("default", "web"), got) })
				if took != 0 || err != nil || got.GetAnnotations()["n"] != "1" {
					t.Errorf("after a patch of metadata: took %v: %v, %v", took, got, err)
				}
				if n := c.count(t, "setpoint_client_live_fallbacks_total"); n != 0 {
					t.Errorf("%v reads gave up on the cache", n)
				}

				c.line.hold()
				must(t, c.Patch(t.Context(), metadataOf(configMaps, "default", "web"), annotate(2)))
				got = into()
				took, err = timed(func() error { return c.Get(t.Context(), key("default", "web"), got) })
				if took != 2*time.Second || err != nil || got.GetAnnotations()["n"] != "2" {
					t.Errorf("while the watch is silent: took %v: %v, %v", took, got, err)
				}
				c.line.release()
				synctest.Wait()

				c.line.set(func(l *line) { l.lose = 1 })
				if err := c.Patch(t.Context(), metadataOf(configMaps, "default", "web"), annotate(3)); err == nil {
					t.Error("the answer was not lost")
				}
				got = into()
				took, err = timed(func() error { return c.Get(t.Context(), key("default", "web"), got) })
				if took != 0 || err != nil || got.GetAnnotations()["n"] != "3" {
					t.Errorf("after a lost answer: took %v: %v, %v", took, got, err)
				}
			})
		})
	}
}

// TestLaw5OutsideTheFields: a write to what the field selector leaves out makes nobody wait, whatever it was sent as.
func TestLaw5OutsideTheFields(t *testing.T) {
	for what, write := range map[string]func(*testing.T, *cluster) error{
		"update": func(t *testing.T, c *cluster) error { return c.Update(t.Context(), configMap("default", "out")) },
		"metadata": func(t *testing.T, c *cluster) error {
			return c.Patch(t.Context(), metadataOf(configMaps, "default", "out"), annotate(1))
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, limited(cache.Options{Fields: inByField}), configMaps)
				apitest.Put(c.line.Server, configMap("default", "out"))
				must(t, write(t, c))
				must(t, c.Patch(t.Context(), metadataOf(configMaps, "default", "out"), annotate(2)))
				for _, into := range []client.Object{&corev1.ConfigMap{}, metadataOf(configMaps, "default", "out")} {
					took, err := timed(func() error { return c.Get(t.Context(), key("default", "out"), into) })
					if took != 0 || !apierrors.IsNotFound(err) {
						t.Errorf("%T: took %v: %v", into, took, err)
					}
				}
				list := &metav1.PartialObjectMetadataList{}
				list.SetGroupVersionKind(configMaps.GroupVersion().WithKind("ConfigMapList"))
				took, err := timed(func() error { return c.List(t.Context(), list, client.InNamespace("default")) })
				if took != 0 || err != nil || len(list.Items) != 0 {
					t.Errorf("list: took %v, found %v: %v", took, list.Items, err)
				}
			})
		})
	}
}

// TestLaw5LiveReadsStayInScope: a read that goes to the server while the cache is behind asks for no more than the cache may
// see, and finds what the cache would show.
func TestLaw5LiveReadsStayInScope(t *testing.T) {
	inByLabel := labels.SelectorFromSet(labels.Set{"in": "yes"})
	for _, test := range []struct {
		why   string
		scope cache.Options
		asked []string
	}{
		{"namespaces", cache.Options{Namespaces: []string{"a", "a-b"}}, []string{"list configmaps a", "list configmaps a-b"}},
		{"labels", cache.Options{Namespaces: []string{"a", "a-b"}, Labels: inByLabel}, []string{"list configmaps a", "list configmaps a-b"}},
		{"fields", cache.Options{Namespaces: []string{"a", "a-b"}, Fields: inByField}, []string{"list configmaps a", "list configmaps a-b"}},
	} {
		t.Run(test.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, limited(test.scope), configMaps)
				c.line.Intercept(forbidClusterWide)
				c.line.hold()
				if test.scope.Labels != nil || test.scope.Fields != nil {
					must(t, c.Create(t.Context(), configMap("a-b", "0-out")))
				}
				for _, at := range []string{"a", "a-b", "c"} {
					obj := marked(at, "web")
					obj.Labels = map[string]string{"in": "yes"}
					must(t, c.Create(t.Context(), obj))
				}
				time.Sleep(2 * time.Second)
				c.line.take()
				list := &corev1.ConfigMapList{}
				must(t, c.List(t.Context(), list))
				var got []string
				for _, item := range list.Items {
					got = append(got, item.Namespace+"/"+item.Name)
				}
				if want := []string{"a-b/web", "a/web"}; !slices.Equal(got, want) || list.ResourceVersion == "" {
					t.Errorf("found %v at %q, want %v, in the cache's order", got, list.ResourceVersion, want)
				}
				if asked := c.line.take(); !slices.Equal(asked, test.asked) {
					t.Errorf("asked %v", asked)
				}
				must(t, c.List(t.Context(), list, client.Limit(1)))
				if len(list.Items) != 1 || list.Items[0].Namespace != "a-b" || list.Items[0].Name != "web" || list.Continue != "" || list.RemainingItemCount == nil {
					t.Errorf("the first is %v: %v", list.ListMeta, list.Items)
				}
				// What became of the collection is asked for in the same scope.
				c.line.set(func(l *line) { l.lose = 1 })
				if err := c.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", GenerateName: "x-"}}); err == nil {
					t.Fatal("the answer was not lost")
				}
				must(t, c.List(t.Context(), list))
			})
		})
	}
}

// TestLaw5IndexOfWhatIsKept: an index is computed from what the cache keeps, also when the server has more.
func TestLaw5IndexOfWhatIsKept(t *testing.T) {
	drop := func(obj runtime.Object) error { obj.(*corev1.ConfigMap).Data = nil; return nil }
	for why, test := range map[string]struct {
		kept  cache.Options
		value func(runtime.Object) string
	}{
		"metadata only": {cache.Options{MetadataOnly: true}, func(obj runtime.Object) string {
			return obj.(*metav1.PartialObjectMetadata).Labels["in"]
		}},
		"transformed": {cache.Options{Transform: drop}, func(obj runtime.Object) string {
			return obj.(*corev1.ConfigMap).Data["in"] + obj.(*corev1.ConfigMap).Labels["in"]
		}},
	} {
		t.Run(why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, limited(test.kept))
				must(t, c.cache.Index(configMaps, "in", func(obj runtime.Object) []string { return []string{test.value(obj)} }))
				_, err := c.cache.Watch(configMaps, nil)
				must(t, err)
				synctest.Wait()
				for range 2 { // from the server, then from the cache
					c.line.hold()
					obj := marked("default", "web")
					obj.Labels = map[string]string{"in": "label"}
					must(t, client.IgnoreNotFound(c.Delete(t.Context(), obj)))
					must(t, c.Create(t.Context(), obj))
					list := &metav1.PartialObjectMetadataList{}
					list.SetGroupVersionKind(configMaps.GroupVersion().WithKind("ConfigMapList"))
					must(t, c.List(t.Context(), list, client.MatchingFields{"in": "label"}))
					if len(list.Items) != 1 {
						t.Errorf("found %v", list.Items)
					}
					c.line.release()
				}
			})
		})
	}
}

// TestLaw5ForbiddenNamespace: a namespace that cannot be watched makes nobody else wait, and those who read it only once.
func TestLaw5ForbiddenNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, limited(cache.Options{Namespaces: []string{"a", "b"}}))
		c.line.Intercept(func(r apitest.Request) error {
			if r.Namespace == "b" && (r.Verb == "list" || r.Verb == "watch") {
				return apierrors.NewForbidden(schema.GroupResource{Resource: r.Resource}, "", nil)
			}
			return nil
		})
		c.watch(t, configMaps)
		synctest.Wait()
		get := func(namespace string, want time.Duration) {
			t.Helper()
			took, err := timed(func() error { return c.Get(t.Context(), key(namespace, "web"), &corev1.ConfigMap{}) })
			if took != want || err != nil {
				t.Errorf("a Get in %s took %v, want %v: %v", namespace, took, want, err)
			}
		}
		must(t, c.Create(t.Context(), configMap("a", "web")))
		apitest.Put(c.line.Server, configMap("b", "web"))
		c.line.take()
		get("a", 0)
		if asked := c.line.take(); len(asked) > 0 {
			t.Errorf("in the other namespace it asked %v", asked)
		}
		get("b", 2*time.Second)
		for n := range 3 {
			get("b", 0)
			must(t, c.Patch(t.Context(), configMap("b", "web"), annotate(n)))
			get("b", 0)
			took, err := timed(func() error { return c.List(t.Context(), &corev1.ConfigMapList{}) })
			if took != 0 || !apierrors.IsForbidden(err) {
				t.Errorf("a List of both took %v: %v", took, err)
			}
		}
		if n := strings.Count(c.log.String(), "no first listing yet"); n != 1 {
			t.Errorf("logged %d times", n)
		}
		c.line.Intercept(nil)
		time.Sleep(5 * time.Minute)
		c.line.take()
		get("b", 0)
		if asked := c.line.take(); len(asked) > 0 {
			t.Errorf("allowed, it asked %v", asked)
		}
	})
}

// TestLaw5BrokenWatch: of many writes to what a broken watch should show, one is waited for; then it has to recover.
func TestLaw5BrokenWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil, configMaps)
		c.line.hold()
		for n, want := range []time.Duration{2 * time.Second, 0, 0} {
			name := fmt.Sprint("web-", n)
			must(t, c.Create(t.Context(), configMap("default", name)))
			took, err := timed(func() error { return c.Get(t.Context(), key("default", name), &corev1.ConfigMap{}) })
			if took != want || err != nil {
				t.Errorf("the Get of %s took %v, want %v: %v", name, took, want, err)
			}
		}
		if n := strings.Count(c.log.String(), "the cache does not show an own write in time"); n != 1 {
			t.Errorf("logged %d times", n)
		}
		c.line.release()
		synctest.Wait()
		c.line.hold()
		must(t, c.Create(t.Context(), configMap("default", "web")))
		time.AfterFunc(time.Second, c.line.release)
		c.line.take()
		took, err := timed(func() error { return c.Get(t.Context(), key("default", "web"), &corev1.ConfigMap{}) })
		if asked := c.line.take(); took != time.Second || err != nil || len(asked) > 0 {
			t.Errorf("recovered, a Get took %v and asked %v: %v", took, asked, err)
		}
	})
}
