package client_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/client"
)

func TestPatches(t *testing.T) {
	base := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", ResourceVersion: "5", Finalizers: []string{"a.dev/x"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a:1"}, {Name: "b", Image: "b:1"}}},
	}
	changed := base.DeepCopy()
	changed.Finalizers = append(changed.Finalizers, "b.dev/y")
	changed.Spec.Containers[1].Image = "b:2"
	relabelled := base.DeepCopy()
	relabelled.Labels = map[string]string{"app": "web"}
	raw := func(t types.PatchType, data string) client.Patch { return client.RawPatch(t, []byte(data)) }

	for _, test := range []struct {
		why   string
		obj   *corev1.Pod
		patch client.Patch
		opts  []client.PatchOption
		want  string // empty: nothing is sent
	}{
		{"merge", relabelled, client.MergeFrom(base), nil, `{"metadata":{"labels":{"app":"web"}}}`},
		{"merge, locked", relabelled, client.MergeFromWithOptimisticLock(base), nil, `{"metadata":{"labels":{"app":"web"},"resourceVersion":"5"}}`},
		{"merge, if unchanged", relabelled, client.MergeFrom(base), []client.PatchOption{client.IfUnchanged}, `{"metadata":{"labels":{"app":"web"},"resourceVersion":"5"}}`},
		{"strategic", changed, client.StrategicMergeFrom(base), nil,
			`{"metadata":{"$setElementOrder/finalizers":["a.dev/x","b.dev/y"],"finalizers":["b.dev/y"]},` +
				`"spec":{"$setElementOrder/containers":[{"name":"a"},{"name":"b"}],"containers":[{"image":"b:2","name":"b"}]}}`},
		{"strategic, locked", relabelled, client.StrategicMergeFromWithOptimisticLock(base), nil, `{"metadata":{"labels":{"app":"web"},"resourceVersion":"5"}}`},
		{"raw", base, raw(types.JSONPatchType, `[{"op":"remove","path":"/spec"}]`), nil, `[{"op":"remove","path":"/spec"}]`},
		{"raw, if unchanged", base, raw(types.JSONPatchType, `[{"op":"remove","path":"/spec"}]`), []client.PatchOption{client.IfUnchanged},
			`[{"op":"remove","path":"/spec"},{"op":"replace","path":"/metadata/resourceVersion","value":"5"}]`},
		{"nothing to merge", base, client.MergeFrom(base), nil, ""},
		{"nothing to merge, locked", base, client.MergeFromWithOptimisticLock(base), nil, ""},
		{"nothing to merge, if unchanged", base, client.MergeFrom(base), []client.PatchOption{client.IfUnchanged}, ""},
		{"nothing, strategic", base, client.StrategicMergeFrom(base), nil, ""},
		{"nothing, raw", base, raw(types.JSONPatchType, ` [ ]`), nil, ""},
	} {
		t.Run(test.why, func(t *testing.T) {
			c, s := scripted(t, with(`{"kind":"Pod","apiVersion":"v1","metadata":{"namespace":"default","name":"web"}}`))
			obj := test.obj.DeepCopy()
			must(t, c.Patch(t.Context(), obj, test.patch, test.opts...))
			if test.want == "" {
				if sent := s.take(); len(sent) > 0 {
					t.Errorf("sent %s", sent[0].body)
				}
				return
			}
			r := s.one(t)
			if got := r.json(t); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			if got := r.header.Get("Content-Type"); got != string(test.patch.Type()) {
				t.Errorf("the content type is %s", got)
			}
		})
	}
}

func TestPatchMisuse(t *testing.T) {
	c, s := scripted(t, with(webJSON))
	base, changed := configMap("default", "web"), configMap("default", "web")
	changed.Data = map[string]string{"a": "1"}
	if err := c.Patch(t.Context(), changed, client.MergeFromWithOptimisticLock(base)); err == nil || !strings.Contains(err.Error(), "resourceVersion") {
		t.Errorf("a lock without a resourceVersion: %v", err)
	}
	if err := c.Patch(t.Context(), widget("default", "w"), client.StrategicMergeFrom(widget("default", "w"))); err == nil || !strings.Contains(err.Error(), "MergeFrom") {
		t.Errorf("a strategic patch of an unstructured object: %v", err)
	}
	if len(s.take()) != 0 {
		t.Error("something was sent")
	}
}

func TestPatchConflictNamesTheFix(t *testing.T) {
	c, _ := scripted(t, with(apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "web", nil)))
	err := c.Patch(t.Context(), configMap("default", "web"), client.RawPatch(types.MergePatchType, []byte(`{"data":null}`)))
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "reconcile again from a fresh read") {
		t.Errorf("got %v", err)
	}
}
