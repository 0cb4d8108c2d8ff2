package cache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// follow runs a cache that has synced the kinds.
func follow(t *testing.T, s *server, cfg Config, kinds ...schema.GroupVersionKind) *harness {
	t.Helper()
	h := start(t, s, cfg)
	for _, kind := range kinds {
		w, err := h.Watch(kind, nil)
		if err != nil {
			t.Fatal(err)
		}
		synced(t, w)
	}
	return h
}

func names(t *testing.T, h *harness, gvk schema.GroupVersionKind, o ListOptions) []string {
	t.Helper()
	var list metav1.PartialObjectMetadataList
	if err := h.List(t.Context(), gvk, o, &list); err != nil {
		t.Fatal(err)
	}
	keys := []string{}
	for _, item := range list.Items {
		keys = append(keys, joinKey(key(item.Namespace, item.Name)))
	}
	return keys
}

// Law: a read gives a private copy. Whatever is done to it, the next read shows what the server said.
func TestReadsArePrivate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		p := pod("a", "x", map[string]string{"app": "x"})
		p.Annotations = map[string]string{"note": "n"}
		s.put(pods, p)
		s.put(widgets, widget("a", "x", map[string]string{"app": "x"}))
		types := runtime.NewScheme()
		must(corev1.AddToScheme(types))
		types.AddKnownTypeWithName(widgetKind, &Workload{})
		h := follow(t, s, Config{Scheme: types}, podKind, widgetKind)
		forms := map[schema.GroupVersionKind][]runtime.Object{
			podKind:    {&corev1.Pod{}, &unstructured.Unstructured{}, &metav1.PartialObjectMetadata{}},
			widgetKind: {&Workload{}, &unstructured.Unstructured{}, &metav1.PartialObjectMetadata{}},
		}
		read := func(kind schema.GroupVersionKind) (objects []runtime.Object) {
			for _, form := range forms[kind] {
				o := form.DeepCopyObject()
				if err := h.Get(t.Context(), kind, key("a", "x"), o); err != nil {
					t.Fatal(err)
				}
				objects = append(objects, o)
			}
			list := &unstructured.UnstructuredList{}
			if err := h.List(t.Context(), kind, ListOptions{}, list); err != nil {
				t.Fatal(err)
			}
			return append(objects, &list.Items[0])
		}
		for kind := range forms {
			want := read(kind)
			for i := range want {
				want[i] = want[i].DeepCopyObject() // before anyone scribbles
			}
			for _, o := range read(kind) {
				scribble(o)
			}
			same(t, kind.Kind+" after scribbling on other copies", want, read(kind))
		}
	})
}

// scribble writes over everything below an object that could be shared.
func scribble(o runtime.Object) {
	switch o := o.(type) {
	case *unstructured.Unstructured:
		scribbleTree(o.Object)
	case *corev1.Pod:
		clear(o.Labels)
		clear(o.Annotations)
		clear(o.Spec.Containers)
	case *Workload:
		clear(o.Labels)
	case *metav1.PartialObjectMetadata:
		clear(o.Labels)
		clear(o.Annotations)
	}
}

func scribbleTree(at any) {
	switch at := at.(type) {
	case map[string]any:
		for k, v := range at {
			scribbleTree(v)
			at[k] = "scribbled"
		}
	case []any:
		for i, v := range at {
			scribbleTree(v)
			at[i] = "scribbled"
		}
	}
}

// Law: a read never starts a watch.
func TestReadOfUndeclaredKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		h := start(t, s, Config{Kinds: map[schema.GroupKind]Options{
			podKind.GroupKind():  {Namespaces: []string{"a", "b"}},
			nodeKind.GroupKind(): {MetadataOnly: true},
		}})
		notCached := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, ErrNotCached) {
				t.Errorf("%s: %v", what, err)
			}
		}
		notCached("Get", h.Get(t.Context(), podKind, key("a", "x"), &corev1.Pod{}))
		notCached("List", h.List(t.Context(), podKind, ListOptions{}, &corev1.PodList{}))
		notCached("WaitRevision", h.WaitRevision(t.Context(), podKind, "", "5"))
		if h.Covers(podKind, "a") {
			t.Error("an undeclared kind is covered")
		}
		synctest.Wait()
		same(t, "requests", 0, len(s.asked()))

		for _, kind := range []schema.GroupVersionKind{podKind, nodeKind} {
			w, err := h.Watch(kind, nil)
			if err != nil {
				t.Fatal(err)
			}
			synced(t, w)
		}
		notCached("Get outside the namespaces", h.Get(t.Context(), podKind, key("c", "x"), &corev1.Pod{}))
		notCached("List outside the namespaces", h.List(t.Context(), podKind, ListOptions{Namespace: "c"}, &corev1.PodList{}))
		s.put(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
		synctest.Wait()
		notCached("typed Get of metadata", h.Get(t.Context(), nodeKind, key("", "n"), &corev1.Node{}))
		notCached("typed List of metadata", h.List(t.Context(), nodeKind, ListOptions{}, &corev1.NodeList{}))
		if err := h.Get(t.Context(), nodeKind, key("", "n"), &metav1.PartialObjectMetadata{}); err != nil {
			t.Error(err)
		}
		err := h.Get(t.Context(), podKind, key("a", "none"), &corev1.Pod{})
		if !apierrors.IsNotFound(err) || err.Error() != `pods "none" not found` {
			t.Errorf("Get of what is not there: %v", err)
		}
		same(t, "coverage", []bool{true, true, false, true}, []bool{
			h.Covers(podKind, "a"), h.Covers(podKind, ""), h.Covers(podKind, "c"), h.Covers(nodeKind, ""),
		})
	})
}

// A read that waits ends with its context and says what the watch suffers from.
func TestReadNamesTheWatchError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.setFault(forbid)
		h := start(t, s, Config{})
		w, err := h.Watch(podKind, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for what, err := range map[string]error{
			"Get":        h.Get(ctx, podKind, key("a", "x"), &corev1.Pod{}),
			"WaitSynced": w.WaitSynced(ctx),
		} {
			if !errors.Is(err, context.DeadlineExceeded) || !apierrors.IsForbidden(err) {
				t.Errorf("%s: %v", what, err)
			}
		}
		// Allowed at last: it heals by itself.
		s.setFault(nil)
		s.put(pods, pod("a", "x", nil))
		if err := h.Get(t.Context(), podKind, key("a", "x"), &corev1.Pod{}); err != nil {
			t.Error(err)
		}
		if w.Err() != nil {
			t.Errorf("healed, but: %v", w.Err())
		}
	})
}

func TestListShapes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		for _, name := range []string{"b/2", "a/1", "a/3"} {
			k := splitKey(name)
			s.put(pods, pod(k.Namespace, k.Name, nil))
		}
		h := follow(t, s, Config{}, podKind)
		var typed corev1.PodList
		typed.Items = make([]corev1.Pod, 7)
		if err := h.List(t.Context(), podKind, ListOptions{}, &typed); err != nil {
			t.Fatal(err)
		}
		same(t, "typed list", []string{"a/1 node-1", "a/3 node-3", "b/2 node-2"}, func() (lines []string) {
			for _, p := range typed.Items {
				lines = append(lines, p.Namespace+"/"+p.Name+" "+p.Spec.NodeName)
			}
			return lines
		}())
		same(t, "revision", "103", typed.ResourceVersion)
		same(t, "kind of an item", podKind, typed.Items[0].GroupVersionKind())
		var trees unstructured.UnstructuredList
		if err := h.List(t.Context(), podKind, ListOptions{Namespace: "a"}, &trees); err != nil {
			t.Fatal(err)
		}
		same(t, "unstructured list", 2, len(trees.Items))
		same(t, "its kind", "PodList", trees.GetKind())
		same(t, "one namespace", []string{"b/2"}, names(t, h, podKind, ListOptions{Namespace: "b"}))
		same(t, "no namespace of that name", []string{}, names(t, h, podKind, ListOptions{Namespace: "c"}))

		var limited metav1.PartialObjectMetadataList
		if err := h.List(t.Context(), podKind, ListOptions{Limit: 2}, &limited); err != nil {
			t.Fatal(err)
		}
		same(t, "limited", []any{2, int64(1)}, []any{len(limited.Items), *limited.RemainingItemCount})
		if err := h.List(t.Context(), podKind, ListOptions{}, &corev1.NodeList{}); err == nil {
			t.Error("Pods were listed into Nodes")
		}
	})
}

// Whatever the selector, a List returns what a scan over all objects returns.
func TestSelectors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(3, 4))
		s := newServer()
		metrics := prometheus.NewPedanticRegistry()
		h := start(t, s, Config{Metrics: metrics})
		if err := h.Index(podKind, "images", podImages); err != nil {
			t.Fatal(err)
		}
		w, err := h.Watch(podKind, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			for i := range 60 {
				p := pod(pick(rnd, "a", "b", "ab"), fmt.Sprint("p", i%40), map[string]string{})
				for _, k := range []string{"app", "tier", "odd"} {
					if v := pick(rnd, "", "x", "y", "z"); v != "" {
						p.Labels[k] = v
					}
				}
				p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Image: pick(rnd, "nginx", "redis")})
				s.put(pods, p)
				if rnd.IntN(5) == 0 {
					s.delete(pods, fmt.Sprintf("a/p%d", rnd.IntN(40)))
				}
			}
			synced(t, w)
			checkSelectors(t, h)
		}
		h.mustList(t, ListOptions{Fields: fields.OneTermEqualSelector("spec.nodeName", "node-p1")})
		if n := testutil.ToFloat64(h.metrics.scans.WithLabelValues("Pod")); n == 0 {
			t.Error("a scan was not counted")
		}
	})
}

func podImages(o runtime.Object) (images []string) {
	for _, c := range o.(*corev1.Pod).Spec.Containers {
		images = append(images, c.Image)
	}
	return images
}

func pick[T any](rnd interface{ IntN(int) int }, of ...T) T { return of[rnd.IntN(len(of))] }

func (h *harness) mustList(t *testing.T, o ListOptions) []corev1.Pod {
	t.Helper()
	var list corev1.PodList
	if err := h.List(t.Context(), podKind, o, &list); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func checkSelectors(t *testing.T, h *harness) {
	t.Helper()
	everything := h.mustList(t, ListOptions{})
	for _, namespace := range []string{"", "a", "ab", "none"} {
		for _, label := range []string{
			"", "app=x", "app==x,tier=y", "app!=x", "app in (x,y)", "app notin (x,y),tier", "!app", "app,!tier", "none=x", "app in (x),app notin (x)",
		} {
			for _, field := range []string{
				"", "images=nginx", "images!=redis", "images=redis,images=nginx", "images=none",
				"metadata.name=p7", "metadata.name!=p7", "metadata.namespace=b", "metadata.name=p7,metadata.namespace=a", "spec.nodeName=node-p3",
			} {
				o := ListOptions{Namespace: namespace, Labels: labels.Everything(), Fields: fields.ParseSelectorOrDie(field)}
				var err error
				if o.Labels, err = labels.Parse(label); err != nil {
					t.Fatal(err)
				}
				var want, got []string
				for _, p := range everything {
					if selected(o, &p) {
						want = append(want, p.Namespace+"/"+p.Name)
					}
				}
				for _, p := range h.mustList(t, o) {
					got = append(got, p.Namespace+"/"+p.Name)
				}
				same(t, fmt.Sprintf("in %q labels %q fields %q", namespace, label, field), want, got)
			}
		}
	}
}

// selected is the simple truth about a selector.
func selected(o ListOptions, p *corev1.Pod) bool {
	if o.Namespace != "" && o.Namespace != p.Namespace || !o.Labels.Matches(labels.Set(p.Labels)) {
		return false
	}
	for _, r := range o.Fields.Requirements() {
		values := map[string][]string{
			"images": podImages(p), "metadata.name": {p.Name}, "metadata.namespace": {p.Namespace}, "spec.nodeName": {p.Spec.NodeName},
		}[r.Field]
		if slices.Contains(values, r.Value) != (r.Operator != "!=") {
			return false
		}
	}
	return true
}

// managedFields are not kept, but those of our own managers beside the object.
func TestManagedFields(t *testing.T) {
	for name, c := range map[string]struct {
		kind       schema.GroupVersionKind
		collection string
		object     testObject
	}{
		"protobuf": {podKind, pods, pod("a", "x", nil)},
		"JSON":     {widgetKind, widgets, widget("a", "x", nil)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				s.put(c.collection, c.object)
				read := func(cfg Config) (inObject, beside []string) {
					h := follow(t, s, cfg, c.kind)
					defer h.stop()
					var m metav1.PartialObjectMetadata
					if err := h.Get(t.Context(), c.kind, key("a", "x"), &m); err != nil {
						t.Fatal(err)
					}
					for _, f := range m.ManagedFields {
						inObject = append(inObject, f.Manager)
					}
					entry, ok := h.Peek(c.kind, key("a", "x"))
					if !ok {
						t.Fatal("nothing to peek at")
					}
					same(t, "revision", "101", entry.ResourceVersion())
					same(t, "UID", "uid-101", string(entry.UID()))
					for _, f := range entry.ManagedFields() {
						beside = append(beside, f.Manager+" "+string(f.FieldsV1.GetRawBytes()))
					}
					return inObject, beside
				}
				inObject, beside := read(Config{})
				same(t, "by default", [][]string{nil, nil}, [][]string{inObject, beside})
				inObject, beside = read(Config{FieldOwners: []string{"mine"}})
				same(t, "own", [][]string{nil, {`mine {"f:spec":{}}`}}, [][]string{inObject, beside})
				inObject, beside = read(Config{Default: Options{KeepManagedFields: true}})
				same(t, "kept", [][]string{{"kubelet", "mine"}, {`kubelet {"f:status":{}}`, `mine {"f:spec":{}}`}}, [][]string{inObject, beside})
			})
		})
	}
}

func TestTransform(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.put(pods, pod("a", "x", nil))
		s.put(pods, pod("a", "bad", nil))
		s.put(widgets, widget("a", "x", nil))
		h := follow(t, s, Config{FieldOwners: []string{"mine"}, Default: Options{Transform: func(o runtime.Object) error {
			switch o := o.(type) {
			case *corev1.Pod:
				o.Spec.Containers = nil
				if o.Name == "bad" {
					return errors.New("cannot")
				}
			case *unstructured.Unstructured:
				delete(o.Object, "spec")
			}
			return nil
		}}}, podKind, widgetKind)
		var p corev1.Pod
		if err := h.Get(t.Context(), podKind, key("a", "x"), &p); err != nil {
			t.Fatal(err)
		}
		same(t, "containers", 0, len(p.Spec.Containers))
		same(t, "node", "node-x", p.Spec.NodeName)
		if err := h.Get(t.Context(), podKind, key("a", "bad"), &p); err != nil {
			t.Fatal(err)
		}
		same(t, "containers of what could not be transformed", 1, len(p.Spec.Containers))
		var u unstructured.Unstructured
		if err := h.Get(t.Context(), widgetKind, key("a", "x"), &u); err != nil {
			t.Fatal(err)
		}
		same(t, "spec", nil, u.Object["spec"])
		entry, _ := h.Peek(widgetKind, key("a", "x"))
		same(t, "own managedFields survive", 1, len(entry.ManagedFields()))
	})
}

// Keep leaves of an object its metadata and the named fields, typed or not.
func TestKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.put(pods, pod("a", "x", map[string]string{"app": "x"}))
		s.put(widgets, widget("a", "x", nil))
		h := follow(t, s, Config{Kinds: map[schema.GroupKind]Options{
			podKind.GroupKind():    {Transform: Keep("spec.containers.image", "status")},
			widgetKind.GroupKind(): {Transform: Keep("spec.size.below", "spec.parts", "spec.colour", "spec.missing")},
		}}, podKind, widgetKind)
		var p corev1.Pod
		must(h.Get(t.Context(), podKind, key("a", "x"), &p))
		same(t, "spec", corev1.PodSpec{Containers: []corev1.Container{{Image: "nginx"}}}, p.Spec)
		same(t, "labels", map[string]string{"app": "x"}, p.Labels)
		var u unstructured.Unstructured
		must(h.Get(t.Context(), widgetKind, key("a", "x"), &u))
		same(t, "spec", map[string]any{"size": int64(3), "colour": "re\"d", "parts": []any{"a", "b"}}, u.Object["spec"])
		same(t, "kind", "Widget", u.GetKind())
	})
	all := Keep("spec.a", "spec")
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"a": "1", "b": "2"}, "status": "x"}}
	must(all(u))
	same(t, "all of spec", map[string]any{"spec": map[string]any{"a": "1", "b": "2"}}, u.Object)
}

// The metrics follow the store, and describe nothing once the kind is not watched any more.
func TestSizeMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.put(pods, pod("a", "x", nil))
		r := prometheus.NewPedanticRegistry()
		h := start(t, s, Config{Metrics: r})
		w, err := h.Watch(podKind, nil)
		if err != nil {
			t.Fatal(err)
		}
		synced(t, w)
		sizes := func() (objects, bytes float64) {
			families, err := r.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range families {
				switch f.GetName() {
				case "setpoint_cache_objects":
					objects = f.Metric[0].Gauge.GetValue()
				case "setpoint_cache_bytes":
					bytes = f.Metric[0].Gauge.GetValue()
				}
			}
			return objects, bytes
		}
		objects, one := sizes()
		same(t, "objects", 1.0, objects)
		s.put(pods, pod("a", "y", nil))
		synctest.Wait()
		if objects, two := sizes(); objects != 2 || two <= one {
			t.Errorf("%v objects, %v bytes after %v", objects, two, one)
		}
		s.delete(pods, "a/y")
		synctest.Wait()
		if _, bytes := sizes(); bytes != one {
			t.Errorf("%v bytes after the deletion, %v before", bytes, one)
		}
		w.Close()
		if objects, bytes := sizes(); objects != 0 || bytes != 0 {
			t.Errorf("%v objects, %v bytes after the last Close", objects, bytes)
		}
	})
}

func mustSelector(s string) labels.Selector {
	selector, err := labels.Parse(s)
	must(err)
	return selector
}

// What is wrong with a configuration is said when the cache is made.
func TestNewRefuses(t *testing.T) {
	if _, err := New(Config{}); err == nil {
		t.Error("a cache without a server was made")
	}
	r := prometheus.NewRegistry()
	cfg := Config{REST: &rest.Config{Host: "https://server.test"}, Metrics: r}
	if _, err := New(cfg); err != nil {
		t.Fatal(err)
	}
	if _, err := New(cfg); err == nil {
		t.Error("two caches share a registry")
	}
	cfg = Config{REST: cfg.REST, Default: Options{Namespaces: []string{"a"}, NamespaceSelector: mustSelector("a=b")}}
	if _, err := New(cfg); err == nil {
		t.Error("namespaces are given by name and by label")
	}
}
