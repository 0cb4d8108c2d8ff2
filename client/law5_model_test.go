package client_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/cache"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/internal/apitest"
)

// TestLaw5ReadsSeeOwnWrites drives random verbs in random representations over caches of several scopes, while answers get lost
// and watches lag, break and are replaced, and others write, too. After each write it reads, and compares with the server: of
// the objects that only this client writes, a read shows just what the server has, within the bound, and without a new watch.
// Where the cache is limited to namespaces, more is forbidden.
//
// A failure is run again by: go test -run TestLaw5ReadsSeeOwnWrites -seed N -seeds 1
func TestLaw5ReadsSeeOwnWrites(t *testing.T) {
	seed := *firstSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano()) &^ 7
	}
	for i := range *seeds {
		t.Run(fmt.Sprint("seed ", seed+i), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newModel(t, rand.New(rand.NewPCG(seed+i, 0)), limits(seed+i))
				for range 80 {
					m.disturb()
					m.write()
					if m.r.IntN(3) > 0 {
						m.check()
					}
				}
				m.c.line.release()
				m.c.line.set(func(l *line) { l.cut, l.lose = false, 0 })
				time.Sleep(2 * time.Minute)
				m.checkQuiet()
			})
		})
	}
}

// limits say by what caches are limited.
type limits uint

const (
	byLabel limits = 1 << iota
	byNamespace
	byField
)

// marks are the fields that caches are limited by.
var marks = map[schema.GroupVersionKind]string{configMaps: "data", widgetKind: "spec"}

func (l limits) options(gvk schema.GroupVersionKind) (o cache.Options) {
	if l&byLabel != 0 {
		o.Labels = labels.SelectorFromSet(labels.Set{"in": "yes"})
	}
	if l&byNamespace != 0 {
		o.Namespaces = []string{"a", "b"}
	}
	if l&byField != 0 {
		o.Fields = fields.OneTermEqualSelector(marks[gvk]+".in", "yes")
	}
	return o
}

var (
	firstSeed = flag.Uint64("seed", 0, "first seed of the random tests; 0: the time")
	seeds     = flag.Uint64("seeds", 24, "number of seeds of the random tests")
)

// model is a random client of a cluster.
type model struct {
	*testing.T
	r     *rand.Rand
	c     *cluster
	kinds []schema.GroupVersionKind
	lines []string // what was done, for the failure text
}

func newModel(t *testing.T, r *rand.Rand, l limits) *model {
	kinds := []schema.GroupVersionKind{configMaps, widgetKind}
	options := map[schema.GroupKind]cache.Options{}
	for _, gvk := range kinds {
		options[gvk.GroupKind()] = l.options(gvk)
	}
	m := &model{T: t, r: r, kinds: kinds, c: newCluster(t, options, kinds...)}
	if l&byNamespace != 0 {
		m.c.line.Intercept(func(r apitest.Request) error {
			if r.UserAgent == modelAgent || r.Namespace != "" || r.Verb != "list" && r.Verb != "watch" {
				return nil
			}
			return apierrors.NewForbidden(schema.GroupResource{Resource: r.Resource}, "", nil)
		})
	}
	for _, name := range []string{"theirs-0", "theirs-1"} {
		apitest.Put(m.c.line.Server, m.object(configMaps, "a", name))
	}
	synctest.Wait()
	return m
}

func (m *model) logf(format string, args ...any) {
	m.lines = append(m.lines, time.Now().Format("05.000 ")+fmt.Sprintf(format, args...))
}

func (m *model) fail(format string, args ...any) {
	m.Helper()
	m.Fatalf("%s\nafter:\n%s\nlog:\n%s", fmt.Sprintf(format, args...), strings.Join(m.lines, "\n"), m.c.log)
}

// disturb does something to the watches, to the answers, or in the name of others.
func (m *model) disturb() {
	l := m.c.line
	switch m.r.IntN(14) {
	case 0:
		m.logf("watches are silent")
		l.hold()
	case 1, 2:
		m.logf("watches go on")
		l.release()
		synctest.Wait()
	case 3:
		m.logf("watches end")
		l.DropWatches(m.r.IntN(2) == 0)
	case 4:
		m.logf("watches cannot be opened")
		l.set(func(l *line) { l.cut = true })
		l.DropWatches(false)
	case 5, 6:
		m.logf("watches can be opened")
		l.set(func(l *line) { l.cut = false })
	case 7:
		m.logf("the next answer is lost")
		l.set(func(l *line) { l.lose = 1 })
	case 8:
		theirs := m.object(configMaps, "a", fmt.Sprint("theirs-", m.r.IntN(2))).(*corev1.ConfigMap)
		theirs.Data = map[string]string{"n": fmt.Sprint(m.r.IntN(1000))}
		apitest.Put(l.Server, theirs)
	case 10:
		gvk := m.kinds[m.r.IntN(2)]
		m.logf("the watch of %s is replaced", gvk.Kind)
		m.c.watch(m.T, gvk)
	case 9:
		time.Sleep(time.Duration(m.r.IntN(5000)) * time.Millisecond)
	}
}

// object is a new object in a random representation that can be created.
func (m *model) object(gvk schema.GroupVersionKind, namespace, name string) client.Object {
	in := []string{"yes", "yes", "no"}[m.r.IntN(3)]
	var obj client.Object = &corev1.ConfigMap{Data: map[string]string{"n": fmt.Sprint(m.r.IntN(1000)), "in": in}}
	if gvk == widgetKind {
		obj = &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"n": int64(m.r.IntN(1000)), "in": in}}}
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	obj.SetNamespace(namespace)
	obj.SetName(name)
	if m.r.IntN(3) > 0 {
		obj.SetLabels(map[string]string{"in": "yes"})
	}
	if m.r.IntN(4) == 0 {
		obj.SetFinalizers([]string{"example.com/x"})
	}
	return obj
}

func (m *model) pick() (schema.GroupVersionKind, types.NamespacedName) {
	return m.kinds[m.r.IntN(2)], key([]string{"a", "b", "c"}[m.r.IntN(3)], fmt.Sprint("own-", m.r.IntN(3)))
}

// write does one write of a random verb.
func (m *model) write() {
	ctx, c := m.Context(), m.c
	gvk, key := m.pick()
	obj := m.object(gvk, key.Namespace, key.Name)
	live := obj.DeepCopyObject().(client.Object)
	exists := c.line.Server.Get(live)
	var err error
	verb := []string{"create", "generate", "update", "merge", "relabel", "apply", "status", "finalize", "delete", "delete", "delete all", "partial", "partial mark", "partial delete"}[m.r.IntN(14)]
	switch verb {
	case "create":
		err = c.Create(ctx, obj)
	case "generate":
		obj.SetName("")
		obj.SetGenerateName("own-gen-")
		err = c.Create(ctx, obj)
	case "update":
		obj.SetFinalizers(live.GetFinalizers())
		err = c.Update(ctx, obj)
	case "merge":
		err = c.Patch(ctx, live, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"n":"%d"}}}`, m.r.IntN(1000))))
	case "partial":
		partial := metadataOf(gvk, key.Namespace, key.Name)
		err = c.Patch(ctx, partial, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"n":"%d"}}}`, m.r.IntN(1000))))
	case "partial mark": // the answer does not say what it changed
		mark := []string{`"yes"`, `"no"`, `null`}[m.r.IntN(3)]
		err = c.Patch(ctx, metadataOf(gvk, key.Namespace, key.Name), client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{%q:{"in":%s}}`, marks[gvk], mark)))
		verb += " " + mark
	case "partial delete":
		err = c.Delete(ctx, metadataOf(gvk, key.Namespace, key.Name))
	case "relabel":
		base := live.DeepCopyObject().(client.Object)
		live.SetLabels(obj.GetLabels())
		err = c.Patch(ctx, live, client.MergeFrom(base))
	case "finalize":
		base := live.DeepCopyObject().(client.Object)
		live.SetFinalizers(nil)
		err = c.Patch(ctx, live, client.MergeFromWithOptimisticLock(base))
	case "apply":
		err = c.Apply(ctx, obj)
	case "status":
		if gvk == widgetKind {
			live.(*unstructured.Unstructured).Object["status"] = map[string]any{"n": int64(m.r.IntN(1000))}
		}
		err = c.Status().Update(ctx, live)
	case "delete":
		if m.r.IntN(2) == 0 {
			live = obj // without its UID
		}
		err = c.Delete(ctx, live)
	case "delete all":
		if m.r.IntN(3) > 0 {
			return
		}
		err = c.DeleteAllOf(ctx, m.object(gvk, "", ""), client.InNamespace(key.Namespace))
	}
	m.logf("%s %s %s (exists: %v): %v", verb, gvk.Kind, key, exists, err)
	if m.r.IntN(3) == 0 {
		synctest.Wait()
	}
}

// check does one read in a random representation, and compares it with the server.
func (m *model) check() {
	gvk, key := m.pick()
	into := []client.Object{&corev1.ConfigMap{}, &unstructured.Unstructured{}, &metav1.PartialObjectMetadata{}}[m.r.IntN(3)]
	if gvk == widgetKind && m.r.IntN(3) > 0 {
		into = &unstructured.Unstructured{}
	} else if gvk == widgetKind {
		into = &metav1.PartialObjectMetadata{}
	}
	start := time.Now()
	if m.r.IntN(2) == 0 {
		into.GetObjectKind().SetGroupVersionKind(gvk)
		m.checkGet(gvk, key, into)
	} else {
		m.checkList(gvk, []string{"", key.Namespace}[m.r.IntN(2)], into)
	}
	if took := time.Since(start); took > 2*time.Second {
		m.fail("the read took %v", took)
	}
}

func (m *model) checkGet(gvk schema.GroupVersionKind, key types.NamespacedName, into client.Object) {
	live := m.state(gvk, key)
	err := m.c.Get(m.Context(), key, into)
	m.logf("get %s %s as %T: %q %v", gvk.Kind, key, into, into.GetResourceVersion(), err)
	switch covered := m.c.cache.Covers(gvk, key.Namespace); {
	case err != nil && !apierrors.IsNotFound(err):
		m.fail("get: %v", err)
	case live == nil || covered && !m.inScope(gvk, live):
		if err == nil {
			m.fail("%s is shown at revision %s: the server says %v", key, into.GetResourceVersion(), describe(live))
		}
	case err != nil:
		m.fail("%s is not shown: the server says %v", key, describe(live))
	default:
		m.same(live, into)
	}
}

func (m *model) checkList(gvk schema.GroupVersionKind, namespace string, like client.Object) {
	var list client.ObjectList
	switch like.(type) {
	case *corev1.ConfigMap:
		list = &corev1.ConfigMapList{}
	case *unstructured.Unstructured:
		list = &unstructured.UnstructuredList{}
	default:
		list = &metav1.PartialObjectMetadataList{}
	}
	list.GetObjectKind().SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	covered := m.c.cache.Covers(gvk, namespace)
	want := map[types.NamespacedName]client.Object{}
	for _, obj := range m.all(gvk, namespace) {
		if !covered || m.inScope(gvk, obj) {
			want[client.KeyOf(obj)] = obj
		}
	}
	must(m.T, m.c.List(m.Context(), list, client.InNamespace(namespace)))
	items, err := meta.ExtractList(list)
	must(m.T, err)
	m.logf("list %s in %q as %T: %d", gvk.Kind, namespace, list, len(items))
	for _, item := range items {
		obj := item.(client.Object)
		if strings.HasPrefix(obj.GetName(), "theirs") {
			continue
		}
		live := want[client.KeyOf(obj)]
		if live == nil {
			m.fail("%s is listed: the server says %v", client.KeyOf(obj), describe(m.state(gvk, client.KeyOf(obj))))
		}
		m.same(live, obj)
		delete(want, client.KeyOf(obj))
	}
	for key, live := range want {
		m.fail("%s is not listed: the server says %v", key, describe(live))
	}
}

// inScope reports whether the cache is to show the server's object.
func (m *model) inScope(gvk schema.GroupVersionKind, obj client.Object) bool {
	matches, sure := m.c.cache.Matches(gvk, obj)
	if !sure {
		m.fail("a whole object does not tell whether it is in scope: %v", obj)
	}
	return matches
}

// checkQuiet checks that reads of a cache that has caught up need no request.
func (m *model) checkQuiet() {
	for _, gvk := range m.kinds {
		// What is not known is asked for once, and once more if others took an object out of the
		// selection and put it back before the cache saw either.
		m.checkList(gvk, "a", &unstructured.Unstructured{})
		m.checkList(gvk, "a", &unstructured.Unstructured{})
		m.c.line.take()
		m.checkList(gvk, "a", &unstructured.Unstructured{})
		if asked := m.c.line.take(); len(asked) > 0 {
			m.fail("the cache has caught up, but a List asks %v", asked)
		}
	}
}

func (m *model) same(live, got client.Object) {
	if got.GetUID() != live.GetUID() || got.GetResourceVersion() != live.GetResourceVersion() || !reflect.DeepEqual(got.GetLabels(), live.GetLabels()) {
		m.fail("shown is %v: the server says %v", describe(got), describe(live))
	}
}

func describe(obj client.Object) string {
	if obj == nil || reflect.ValueOf(obj).IsNil() {
		return "nothing"
	}
	return fmt.Sprintf("%s at %s, UID %s, labels %v, finalizers %v, deleted %v", client.KeyOf(obj), obj.GetResourceVersion(), obj.GetUID(),
		obj.GetLabels(), obj.GetFinalizers(), obj.GetDeletionTimestamp() != nil)
}

// state is the server's object, or nil.
func (m *model) state(gvk schema.GroupVersionKind, key types.NamespacedName) client.Object {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(key.Namespace)
	u.SetName(key.Name)
	if !m.c.line.Server.Get(runtime.Object(u)) {
		return nil
	}
	return u
}

const modelAgent = "model"

// all returns the server's objects that only this client writes.
func (m *model) all(gvk schema.GroupVersionKind, namespace string) (own []client.Object) {
	config := m.c.line.Server.REST()
	config.UserAgent = modelAgent
	live, err := client.New(client.Config{REST: config, Mapper: testMapper()})
	must(m.T, err)
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	must(m.T, live.List(context.Background(), list, client.InNamespace(namespace)))
	m.c.line.Server.Requests()
	for i := range list.Items {
		if strings.HasPrefix(list.Items[i].GetName(), "own") {
			own = append(own, &list.Items[i])
		}
	}
	slices.SortFunc(own, func(a, b client.Object) int { return strings.Compare(a.GetName(), b.GetName()) })
	return own
}
