package reload

import (
	"encoding/json"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/client"
)

// workloadKind is what is particular to a kind of workloads.
type workloadKind struct {
	gvk   schema.GroupVersionKind
	empty func() client.Object
	// template returns the Pod template, which must not be changed, or nil when the workload has none of its own.
	template func(client.Object) *corev1.PodTemplateSpec
	// path leads to the Pod template; nil: it cannot change.
	path []string
	// settled reports whether no rollout is under way; nil: there are none to follow.
	settled func(client.Object) bool
}

// rolls reports whether a rollout of the workload is under way.
func (k *workloadKind) rolls(obj client.Object) bool { return k.settled != nil && !k.settled(obj) }

// workloadKinds returns all kinds of workloads, in the order in which users name them.
func workloadKinds() []*workloadKind {
	template := []string{"spec", "template"}
	return []*workloadKind{
		{
			gvk:      appsv1.SchemeGroupVersion.WithKind("Deployment"),
			empty:    func() client.Object { return &appsv1.Deployment{} },
			template: func(o client.Object) *corev1.PodTemplateSpec { return &o.(*appsv1.Deployment).Spec.Template },
			path:     template,
			settled:  deploymentSettled,
		},
		{
			gvk:      appsv1.SchemeGroupVersion.WithKind("StatefulSet"),
			empty:    func() client.Object { return &appsv1.StatefulSet{} },
			template: func(o client.Object) *corev1.PodTemplateSpec { return &o.(*appsv1.StatefulSet).Spec.Template },
			path:     template,
			settled:  statefulSetSettled,
		},
		{
			gvk:      appsv1.SchemeGroupVersion.WithKind("DaemonSet"),
			empty:    func() client.Object { return &appsv1.DaemonSet{} },
			template: func(o client.Object) *corev1.PodTemplateSpec { return &o.(*appsv1.DaemonSet).Spec.Template },
			path:     template,
			settled:  daemonSetSettled,
		},
		{
			gvk:   batchv1.SchemeGroupVersion.WithKind("CronJob"),
			empty: func() client.Object { return &batchv1.CronJob{} },
			template: func(o client.Object) *corev1.PodTemplateSpec {
				return &o.(*batchv1.CronJob).Spec.JobTemplate.Spec.Template
			},
			path:    []string{"spec", "jobTemplate", "spec", "template"},
			settled: func(client.Object) bool { return true },
		},
		{
			gvk:      batchv1.SchemeGroupVersion.WithKind("Job"),
			empty:    func() client.Object { return &batchv1.Job{} },
			template: func(o client.Object) *corev1.PodTemplateSpec { return &o.(*batchv1.Job).Spec.Template },
		},
		{
			gvk:      rolloutKind,
			empty:    emptyRollout,
			template: func(o client.Object) *corev1.PodTemplateSpec { return rolloutTemplate(o.(*unstructured.Unstructured)) },
			path:     template,
			settled:  rolloutSettled,
		},
	}
}

// kindNames returns the names of all kinds of workloads.
func kindNames() []string {
	var names []string
	for _, k := range workloadKinds() {
		names = append(names, k.gvk.Kind)
	}
	return names
}

// sourceKind returns the kind of a kind of sources.
func sourceKind(kind string) schema.GroupVersionKind {
	return corev1.SchemeGroupVersion.WithKind(kind)
}

// orOne returns a number of replicas, of which there is one by default.
func orOne(replicas *int32) int32 {
	if replicas == nil {
		return 1
	}
	return *replicas
}

// effect says in a few words what a roll does to a workload.
func effect(obj client.Object) string {
	const onDelete = "Stamped (by its update strategy OnDelete, Pods take the change when they are deleted)"
	switch o := obj.(type) {
	case *appsv1.Deployment:
		if o.Spec.Paused {
			return "Stamped (it is paused, and rolls when it is resumed)"
		}
	case *appsv1.StatefulSet:
		if o.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
			return onDelete
		}
	case *appsv1.DaemonSet:
		if o.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType {
			return onDelete
		}
	case *batchv1.CronJob:
		return "Stamped for its next Jobs"
	}
	return "Rolled"
}

func deploymentSettled(o client.Object) bool {
	d := o.(*appsv1.Deployment)
	want, s := orOne(d.Spec.Replicas), d.Status
	return d.Spec.Paused || s.ObservedGeneration >= d.Generation &&
		s.UpdatedReplicas == want && s.Replicas == want && s.AvailableReplicas == want
}

func statefulSetSettled(o client.Object) bool {
	d := o.(*appsv1.StatefulSet)
	want, s, strategy := orOne(d.Spec.Replicas), d.Status, d.Spec.UpdateStrategy
	if strategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return true
	}
	updated := want
	if strategy.RollingUpdate != nil && strategy.RollingUpdate.Partition != nil {
		updated = max(want-*strategy.RollingUpdate.Partition, 0)
	}
	return s.ObservedGeneration >= d.Generation && s.UpdatedReplicas >= updated && s.Replicas == want && s.AvailableReplicas == want
}

func daemonSetSettled(o client.Object) bool {
	d := o.(*appsv1.DaemonSet)
	s := d.Status
	return d.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType || s.ObservedGeneration >= d.Generation &&
		s.UpdatedNumberScheduled >= s.DesiredNumberScheduled && s.NumberAvailable >= s.DesiredNumberScheduled
}

// rolloutKind is the kind of Argo's Rollouts, of which only what is needed here is known.
var rolloutKind = schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "Rollout"}

func emptyRollout() client.Object {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(rolloutKind)
	return u
}

// rolloutTemplate returns the Pod template of a Rollout, or nil when it takes that of another workload (workloadRef), which
// is followed itself.
func rolloutTemplate(u *unstructured.Unstructured) *corev1.PodTemplateSpec {
	content, found, err := unstructured.NestedMap(u.Object, "spec", "template")
	if err != nil || !found {
		return nil
	}
	template := &corev1.PodTemplateSpec{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, template); err != nil {
		return nil // the CRD lets through what is no Pod template
	}
	return template
}

func rolloutSettled(o client.Object) bool {
	u := o.(*unstructured.Unstructured)
	if paused, _, _ := unstructured.NestedBool(u.Object, "spec", "paused"); paused {
		return true
	}
	phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
	observed, _, _ := unstructured.NestedString(u.Object, "status", "observedGeneration")
	return phase == "Healthy" && observed == strconv.FormatInt(u.GetGeneration(), 10)
}

// workload is one workload, as it was read.
type workload struct {
	*workloadKind
	client.Object
	pods *corev1.PodTemplateSpec
	// ours are the fields that the operator owns, as paths such as "f:metadata".
	ours []metav1.ManagedFieldsEntry
}

// stamp returns the template's stamp, or "".
func (w *workload) stamp() string { return w.pods.Annotations[Stamp] }

// restartAt returns the spec.restartAt of an Argo Rollout, or "".
func (w *workload) restartAt() string {
	u, ok := w.Object.(*unstructured.Unstructured)
	if !ok {
		return ""
	}
	at, _, _ := unstructured.NestedString(u.Object, "spec", "restartAt")
	return at
}

// memory returns what is remembered on the workload under the key with that id. It is nil when that is nothing, also when
// somebody else wrote it: when it was copied from another object, or brought back by an undone rollout, it does not tell
// what the Pods were rolled for.
func (w *workload) memory(keyID string) (*memory, error) {
	text, ok := w.GetAnnotations()[State]
	if !ok || !owns(w.ours, State) {
		return nil, nil
	}
	m, err := parseMemory(text)
	if err != nil || m.Key != keyID {
		return nil, err
	}
	return m, nil
}

// owns reports whether one of the entries is of an apply that has an annotation of the object among its fields.
func owns(entries []metav1.ManagedFieldsEntry, annotation string) bool {
	for _, e := range entries {
		if e.Operation != metav1.ManagedFieldsOperationApply || e.FieldsV1 == nil {
			continue
		}
		var fields struct {
			Metadata struct {
				Annotations map[string]json.RawMessage `json:"f:annotations"`
			} `json:"f:metadata"`
		}
		if json.Unmarshal(e.FieldsV1.GetRawBytes(), &fields) == nil {
			if _, ok := fields.Metadata.Annotations["f:"+annotation]; ok {
				return true
			}
		}
	}
	return false
}

// document returns the operator's fields of the workload: what is remembered, if anything, and the stamp, if there is one.
func (w *workload) document(m *memory, stamp string) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(w.gvk)
	u.SetNamespace(w.GetNamespace())
	u.SetName(w.GetName())
	u.SetUID(w.GetUID())
	u.SetResourceVersion(w.GetResourceVersion())
	set := func(value any, path ...string) error {
		if err := unstructured.SetNestedField(u.Object, value, path...); err != nil {
			return fmt.Errorf("the fields of %s %s/%s: %w", w.gvk.Kind, w.GetNamespace(), w.GetName(), err)
		}
		return nil
	}
	if m != nil {
		u.SetAnnotations(map[string]string{State: m.String()})
		if m.Restart != "" {
			if err := set(m.Restart, "spec", "restartAt"); err != nil {
				return nil, err
			}
		}
		if m.Suspended {
			if err := set(true, "spec", "suspend"); err != nil {
				return nil, err
			}
		}
	}
	if stamp != "" && w.path != nil {
		if err := set(map[string]any{Stamp: stamp}, append(w.path[:len(w.path):len(w.path)], "metadata", "annotations")...); err != nil {
			return nil, err
		}
	}
	return u, nil
}
