package client_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/cache"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/internal/apitest"
)

var configMaps = apitest.ConfigMaps.GroupVersionKind

// timed runs a call and returns how long it took.
func timed(call func() error) (time.Duration, error) {
	start := time.Now()
	err := call()
	return time.Since(start), err
}

func TestLaw5ReadWaitsForOwnWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil, configMaps)
		c.line.hold()
		must(t, c.Create(t.Context(), configMap("default", "web")))
		time.AfterFunc(500*time.Millisecond, c.line.release)
		c.line.take()
		took, err := timed(func() error { return c.Get(t.Context(), key("default", "web"), &corev1.ConfigMap{}) })
		if err != nil || took != 500*time.Millisecond {
			t.Errorf("took %v: %v", took, err)
		}
		if asked := c.line.take(); len(asked) > 0 {
			t.Errorf("it asked the server: %v", asked)
		}
	})
}

func TestLaw5WaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil, configMaps)
		c.line.hold()
		must(t, c.Create(t.Context(), configMap("default", "web")))
		for _, want := range []time.Duration{2 * time.Second, 0} {
			took, err := timed(func() error { return c.Get(t.Context(), key("default", "web"), &corev1.ConfigMap{}) })
			if err != nil || took != want {
				t.Errorf("a Get took %v, want %v: %v", took, want, err)
			}
		}
		list := &corev1.ConfigMapList{}
		took, err := timed(func() error { return c.List(t.Context(), list, client.InNamespace("default")) })
		if err != nil || took != 0 || len(list.Items) != 1 {
			t.Errorf("a List took %v and found %d: %v", took, len(list.Items), err)
		}
		if n := strings.Count(c.log.String(), "the cache does not show an own write in time"); n != 1 {
			t.Errorf("logged %d times", n)
		}
		if n := c.count(t, "setpoint_client_live_fallbacks_total"); n != 3 {
			t.Errorf("counted %v fallbacks", n)
		}
		c.line.release()
		synctest.Wait()
		c.line.take()
		must(t, c.Get(t.Context(), key("default", "web"), &corev1.ConfigMap{}))
		if asked := c.line.take(); len(asked) > 0 {
			t.Errorf("caught up, it still asked the server: %v", asked)
		}
	})
}

func TestLaw5EndOfContextEndsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil, configMaps)
		c.line.hold()
		must(t, c.Create(t.Context(), configMap("default", "web")))
		c.line.take()
		ctx, cancel := withTimeout(t, time.Second)
		defer cancel()
		took, err := timed(func() error { return c.Get(ctx, key("default", "web"), &corev1.ConfigMap{}) })
		if took != time.Second || !errors.Is(err, ctx.Err()) || len(c.line.take()) > 0 {
			t.Errorf("took %v: %v", took, err)
		}
	})
}

func TestLaw5OtherKeysDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil, configMaps)
		apitest.Put(c.line.Server, configMap("default", "old"))
		synctest.Wait()
		c.line.hold()
		must(t, c.Create(t.Context(), configMap("default", "web")))
		c.line.take()
		for why, call := range map[string]func() error{
			"another key":       func() error { return c.Get(t.Context(), key("default", "old"), &corev1.ConfigMap{}) },
			"another namespace": func() error { return c.List(t.Context(), &corev1.ConfigMapList{}, client.InNamespace("other")) },
			"stale is allowed":  func() error { return c.List(t.Context(), &corev1.ConfigMapList{}, client.AllowStale) },
		} {
			if took, err := timed(call); took != 0 || err != nil {
				t.Errorf("%s: took %v: %v", why, took, err)
			}
		}
		if asked := c.line.take(); len(asked) > 0 {
			t.Errorf("it asked the server: %v", asked)
		}
	})
}

// TestLaw5OutsideTheCache: nothing waits for writes that the cache will never show.
func TestLaw5OutsideTheCache(t *testing.T) {
	selected := cache.Options{Labels: labels.SelectorFromSet(labels.Set{"in": "yes"}), Namespaces: []string{"default"}}
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, map[schema.GroupKind]cache.Options{configMaps.GroupKind(): selected}, configMaps)
		out := configMap("default", "out")
		must(t, c.Create(t.Context(), out))
		out.Data = map[string]string{"a": "1"}
		must(t, c.Update(t.Context(), out))
		must(t, c.Delete(t.Context(), out))
		must(t, c.Create(t.Context(), configMap("elsewhere", "web")))
		must(t, c.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "key"}}))
		for why, call := range map[string]func() error{
			"get": func() error {
				return client.IgnoreNotFound(c.Get(t.Context(), key("default", "out"), &corev1.ConfigMap{}))
			},
			"list": func() error { return c.List(t.Context(), &corev1.ConfigMapList{}, client.InNamespace("default")) },
			"a namespace that is not cached": func() error {
				return c.Get(t.Context(), key("elsewhere", "web"), &corev1.ConfigMap{})
			},
			"a kind that is not cached": func() error { return c.Get(t.Context(), key("default", "key"), &corev1.Secret{}) },
		} {
			if took, err := timed(call); took != 0 || err != nil {
				t.Errorf("%s: took %v: %v", why, took, err)
			}
		}
		if n := c.count(t, "setpoint_client_live_fallbacks_total"); n != 0 {
			t.Errorf("%v reads gave up on the cache", n)
		}
	})
}

func TestLaw5LeavingTheSelector(t *testing.T) {
	selected := cache.Options{Labels: labels.SelectorFromSet(labels.Set{"in": "yes"})}
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, map[schema.GroupKind]cache.Options{configMaps.GroupKind(): selected}, configMaps)
		c.line.hold()
		obj := configMap("default", "web")
		obj.Labels = map[string]string{"in": "yes"}
		must(t, c.Create(t.Context(), obj))
		obj.Labels = nil
		must(t, c.Update(t.Context(), obj))
		time.AfterFunc(time.Second, c.line.release)
		list := &corev1.ConfigMapList{}
		took, err := timed(func() error { return c.List(t.Context(), list) })
		if took != time.Second || err != nil || len(list.Items) != 0 {
			t.Errorf("took %v, found %v: %v", took, list.Items, err)
		}
	})
}

func TestLaw5DeletedIsGone(t *testing.T) {
	for _, obj := range []client.Object{configMap("default", "web"), widget("default", "web")} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, nil, configMaps, widgetKind)
			must(t, c.Create(t.Context(), obj))
			synctest.Wait()
			c.line.hold()
			must(t, c.Delete(t.Context(), obj))
			time.AfterFunc(time.Second, c.line.release)
			c.line.take()
			took, err := timed(func() error { return c.Get(t.Context(), key("default", "web"), obj) })
			if took != time.Second || !apierrors.IsNotFound(err) || len(c.line.take()) > 0 {
				t.Errorf("%T: took %v: %v", obj, took, err)
			}
		})
	}
}

func TestLaw5LastFinalizerRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil, configMaps)
		obj := configMap("default", "web")
		obj.Finalizers = []string{"example.com/x"}
		must(t, c.Create(t.Context(), obj))
		must(t, c.Delete(t.Context(), obj))
		must(t, c.Get(t.Context(), key("default", "web"), obj))
		if obj.DeletionTimestamp == nil {
			t.Error("the deletion is not visible")
		}
		c.line.hold()
		base := obj.DeepCopy()
		obj.Finalizers = nil
		must(t, c.Patch(t.Context(), obj, client.MergeFromWithOptimisticLock(base)))
		time.AfterFunc(time.Second, c.line.release)
		c.line.take()
		took, err := timed(func() error { return c.Get(t.Context(), key("default", "web"), obj) })
		if took != time.Second || !apierrors.IsNotFound(err) || len(c.line.take()) > 0 {
			t.Errorf("took %v: %v", took, err)
		}
	})
}

func TestLaw5LostAnswer(t *testing.T) {
	for _, test := range []struct {
		why    string
		write  func(*testing.T, *cluster) error
		exists bool
	}{
		{"create", func(t *testing.T, c *cluster) error { return c.Create(t.Context(), configMap("default", "web")) }, true},
		{"apply", func(t *testing.T, c *cluster) error { return c.Apply(t.Context(), configMap("default", "web")) }, true},
		{"delete", func(t *testing.T, c *cluster) error { return c.Delete(t.Context(), configMap("default", "old")) }, false},
		{"delete all of", func(t *testing.T, c *cluster) error {
			return c.DeleteAllOf(t.Context(), configMap("", ""), client.InNamespace("default"))
		}, false},
		{"create with a generated name", func(t *testing.T, c *cluster) error {
			return c.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "gen-"}})
		}, true},
	} {
		t.Run(test.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, nil, configMaps)
				old := apitest.Put(c.line.Server, configMap("default", "old"))
				synctest.Wait()
				c.line.hold()
				c.line.set(func(l *line) { l.lose = 1 })
				if err := test.write(t, c); err == nil {
					t.Fatal("the answer was not lost")
				}
				time.AfterFunc(time.Second, c.line.release)
				list := &corev1.ConfigMapList{}
				took, err := timed(func() error { return c.List(t.Context(), list, client.InNamespace("default")) })
				want := 0
				if test.exists {
					want = 2
				}
				if err != nil || took != time.Second || len(list.Items) != want {
					t.Errorf("took %v and found %d, want %d: %v", took, len(list.Items), want, err)
				}
				c.line.take()
				must(t, client.IgnoreNotFound(c.Get(t.Context(), client.KeyOf(old), old)))
				must(t, c.List(t.Context(), list, client.InNamespace("default")))
				if asked := c.line.take(); len(asked) > 0 {
					t.Errorf("caught up, it still asked the server: %v", asked)
				}
			})
		})
	}
}

// TestLaw5RefusalShowsCacheIsBehind: after a conflict the next read is newer, so that the next reconcile does not conflict again.
func TestLaw5RefusalShowsCacheIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil, configMaps)
		apitest.Put(c.line.Server, configMap("default", "web"))
		synctest.Wait()
		c.line.hold()
		theirs := configMap("default", "web")
		theirs.Data = map[string]string{"theirs": "1"}
		apitest.Put(c.line.Server, theirs)
		obj := &corev1.ConfigMap{}
		must(t, c.Get(t.Context(), key("default", "web"), obj))
		obj.Data = map[string]string{"ours": "1"}
		if err := c.Update(t.Context(), obj); !apierrors.IsConflict(err) {
			t.Fatalf("got %v", err)
		}
		time.AfterFunc(time.Second, c.line.release)
		must(t, c.Get(t.Context(), key("default", "web"), obj))
		if obj.Data["theirs"] != "1" {
			t.Error("the next read is as old as the last one")
		}
		obj.Data["ours"] = "1"
		must(t, c.Update(t.Context(), obj))
	})
}

func TestLaw5KindsWithoutWatchAreUnaffected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil, configMaps)
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "key"}}
		must(t, c.Create(t.Context(), secret))
		c.line.set(func(l *line) { l.lose = 1 })
		if err := c.Update(t.Context(), secret); err == nil {
			t.Fatal("the answer was not lost")
		}
		must(t, c.Get(t.Context(), client.KeyOf(secret), secret))
		must(t, c.Patch(t.Context(), secret, client.RawPatch(types.MergePatchType, []byte(`{"data":{"a":"MQ=="}}`))))
		for _, asked := range c.line.take() {
			if strings.HasPrefix(asked, "list") {
				t.Errorf("it asked %s", asked)
			}
		}
	})
}

// TestLaw5Actions: what a subresource does to its object is an own write, also when the answer tells nothing of the object.
func TestLaw5Actions(t *testing.T) {
	const done = `{"kind":"Status","apiVersion":"v1","status":"Success"}`
	for _, test := range []struct {
		subresource string
		body        client.Object
		act         func(*apitest.Server, *corev1.Pod) any
		seen        func(*corev1.Pod, error) bool
	}{
		{"eviction", &policyv1.Eviction{}, func(s *apitest.Server, pod *corev1.Pod) any {
			s.Delete(pod)
			return done
		}, func(_ *corev1.Pod, err error) bool { return apierrors.IsNotFound(err) }},
		{"binding", &corev1.Binding{}, func(s *apitest.Server, pod *corev1.Pod) any {
			pod.Spec.NodeName = "node"
			apitest.Put(s, pod)
			return done
		}, func(pod *corev1.Pod, err error) bool { return err == nil && pod.Spec.NodeName == "node" }},
	} {
		for _, lose := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s, %d answers lost", test.subresource, lose), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newCluster(t, nil, apitest.Pods.GroupVersionKind)
					pod := apitest.Put(c.line.Server, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}})
					synctest.Wait()
					c.line.hold()
					c.line.act = func() any { return test.act(c.line.Server, pod.DeepCopy()) }
					c.line.set(func(l *line) { l.lose = lose })
					body := test.body.DeepCopyObject().(client.Object)
					body.SetName("web")
					if err := c.SubResource(test.subresource).Create(t.Context(), pod, body); (err != nil) != (lose > 0) {
						t.Fatal(err)
					}
					time.AfterFunc(time.Second, c.line.release)
					got := &corev1.Pod{}
					took, err := timed(func() error { return c.Get(t.Context(), client.KeyOf(pod), got) })
					if took != time.Second || !test.seen(got, err) {
						t.Errorf("took %v, on %q: %v", took, got.Spec.NodeName, err)
					}
				})
			})
		}
	}
}

func TestReadsBeforeTheFirstListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		apitest.Put(c.line.Server, configMap("default", "web"))
		c.line.hold()
		w, err := c.cache.Watch(configMaps, nil)
		must(t, err)
		defer w.Close()
		took, err := timed(func() error { return c.Get(t.Context(), key("default", "web"), &corev1.ConfigMap{}) })
		if err != nil || took != 2*time.Second || !strings.Contains(c.log.String(), "no first listing yet") {
			t.Errorf("took %v: %v", took, err)
		}
		c.line.release()
		synctest.Wait()
		c.line.take()
		must(t, c.Get(t.Context(), key("default", "web"), &corev1.ConfigMap{}))
		if asked := c.line.take(); len(asked) > 0 {
			t.Errorf("it asked %v", asked)
		}
	})
}

// TestLaw5IndexReads: the server does not know the cache's indexes, so that a read that has to go there selects by itself.
func TestLaw5IndexReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		must(t, c.cache.Index(configMaps, "colour", func(obj runtime.Object) []string { return []string{obj.(*corev1.ConfigMap).Data["colour"]} }))
		_, err := c.cache.Watch(configMaps, nil)
		must(t, err)
		synctest.Wait()
		c.line.hold()
		defer c.line.release()
		for name, colour := range map[string]string{"a": "red", "b": "blue", "c": "red"} {
			obj := configMap("default", name)
			obj.Data = map[string]string{"colour": colour}
			must(t, c.Create(t.Context(), obj))
		}
		typed, partial, tree := &corev1.ConfigMapList{}, &metav1.PartialObjectMetadataList{}, &unstructured.UnstructuredList{}
		partial.SetGroupVersionKind(configMaps.GroupVersion().WithKind("ConfigMapList"))
		tree.SetGroupVersionKind(configMaps.GroupVersion().WithKind("ConfigMapList"))
		for _, list := range []client.ObjectList{typed, partial, tree} {
			must(t, c.List(t.Context(), list, client.MatchingFields{"colour": "red"}))
			items, err := meta.ExtractList(list)
			must(t, err)
			if len(items) != 2 || items[0].(client.Object).GetName() != "a" || items[1].GetObjectKind().GroupVersionKind() != configMaps {
				t.Errorf("%T has %v", list, items)
			}
		}
		if tree.Items[0].Object["data"] == nil || tree.GetResourceVersion() == "" {
			t.Errorf("the unstructured list is %v", tree)
		}
		must(t, c.List(t.Context(), typed, client.MatchingFields{"colour": "red"}, client.Limit(1)))
		if len(typed.Items) != 1 {
			t.Errorf("of one at most it has %v", typed.Items)
		}
	})
}
