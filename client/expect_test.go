package client_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/cache"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/filter"
	"github.com/setpoint-dev/setpoint/internal/apitest"
)

// TestEndOfOwnObjectIsTold: somebody else deletes, while the watch is away, an object that this client knows of and the cache
// does not. Those who watch its kind learn of the end with its labels and owners.
func TestEndOfOwnObjectIsTold(t *testing.T) {
	owned := func(name string) *corev1.ConfigMap {
		obj := marked("default", name)
		obj.Labels = map[string]string{"in": "yes"}
		obj.OwnerReferences = []metav1.OwnerReference{{Name: "owner", UID: "u"}}
		return obj
	}
	const told = "web owner"
	for _, test := range []struct {
		why   string
		scope cache.Options
		write func(*testing.T, *cluster) error
		want  []string
	}{
		{"created", cache.Options{}, func(t *testing.T, c *cluster) error { return c.Create(t.Context(), owned("web")) }, []string{told}},
		{"applied", cache.Options{}, func(t *testing.T, c *cluster) error { return c.Apply(t.Context(), owned("web")) }, []string{told}},
		{"limited by field", cache.Options{Fields: inByField}, func(t *testing.T, c *cluster) error {
			return c.Create(t.Context(), owned("web"))
		}, []string{told}},
		{"metadata patched of another's", cache.Options{}, func(t *testing.T, c *cluster) error {
			apitest.Put(c.line.Server, owned("web"))
			return c.Patch(t.Context(), metadataOf(configMaps, "default", "web"), annotate(1))
		}, []string{told}},
		{"answer lost, found by asking", cache.Options{Fields: inByField}, func(t *testing.T, c *cluster) error {
			c.line.set(func(l *line) { l.lose = 1 })
			if err := c.Create(t.Context(), owned("web")); err == nil {
				t.Error("the answer was not lost")
			}
			return c.Get(t.Context(), key("default", "web"), &corev1.ConfigMap{})
		}, []string{told}},
		{"another's, read in place of the cache", cache.Options{}, func(t *testing.T, c *cluster) error {
			apitest.Put(c.line.Server, owned("web"))
			if err := c.Create(t.Context(), configMap("default", "stays")); err != nil {
				return err
			}
			return c.List(t.Context(), &corev1.ConfigMapList{})
		}, []string{told}},
		{"outside the namespaces", cache.Options{Namespaces: []string{"a"}}, func(t *testing.T, c *cluster) error {
			return c.Create(t.Context(), owned("web"))
		}, nil},
		{"outside the fields", cache.Options{Fields: inByField}, func(t *testing.T, c *cluster) error {
			obj := owned("web")
			obj.Data = nil
			return c.Create(t.Context(), obj)
		}, nil},
		{"outside the fields, which the write does not tell", cache.Options{Fields: inByField}, func(t *testing.T, c *cluster) error {
			obj := owned("web")
			obj.Data = nil
			apitest.Put(c.line.Server, obj)
			return c.Patch(t.Context(), metadataOf(configMaps, "default", "web"), annotate(1))
		}, nil},
		{"deleted by ourselves", cache.Options{}, func(t *testing.T, c *cluster) error {
			obj := owned("other")
			apitest.Put(c.line.Server, obj)
			return c.Delete(t.Context(), obj)
		}, nil},
	} {
		t.Run(test.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, limited(test.scope))
				var ends []string
				w, err := c.cache.Watch(configMaps, func(change filter.Change) {
					if change.New == nil {
						m := change.Old.Meta()
						ends = append(ends, strings.TrimSpace(m.Name+" "+m.OwnerReferences[0].Name))
					}
				})
				must(t, err)
				defer w.Close()
				synctest.Wait()
				c.line.set(func(l *line) { l.cut = true })
				c.line.DropWatches(true)
				synctest.Wait()
				if err := test.write(t, c); err != nil {
					t.Fatal(err)
				}
				c.line.Delete(configMap("default", "web"))
				c.line.DropWatches(true)
				c.line.set(func(l *line) { l.cut = false })
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				if !slices.Equal(ends, test.want) {
					t.Errorf("told %q, want %q", ends, test.want)
				}
				must(t, client.IgnoreNotFound(c.Get(t.Context(), key("default", "web"), &corev1.ConfigMap{})))
			})
		})
	}
}
