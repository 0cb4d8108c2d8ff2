package cached

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	peercache "sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/setpoint-dev/setpoint/bench/filled"
	"github.com/setpoint-dev/setpoint/bench/pods"
	"github.com/setpoint-dev/setpoint/bench/report"
	"github.com/setpoint-dev/setpoint/cache"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/plane"
	"github.com/setpoint-dev/setpoint/plane/manifest"
)

// workloadKind is a custom resource of Deployment's shape.
var workloadKind = schema.GroupVersionKind{Group: "bench.setpoint.dev", Version: "v1", Kind: "Workload"}

type workload struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              appsv1.DeploymentSpec   `json:"spec"`
	Status            appsv1.DeploymentStatus `json:"status,omitempty"`
}

type workloadList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []workload `json:"items"`
}

func (w *workload) DeepCopyObject() runtime.Object {
	out := *w
	w.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	w.Spec.DeepCopyInto(&out.Spec)
	w.Status.DeepCopyInto(&out.Status)
	return &out
}

func (l *workloadList) DeepCopyObject() runtime.Object {
	out := *l
	out.Items = make([]workload, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*workload)
	}
	return &out
}

// newWorkload returns the i-th one: the template of the i-th Pod, in a Deployment's clothes.
func newWorkload(i int) *workload {
	pod := pods.Pod(i)
	w := &workload{TypeMeta: metav1.TypeMeta{APIVersion: workloadKind.GroupVersion().String(), Kind: workloadKind.Kind}}
	w.Namespace, w.Name, w.Labels, w.Annotations = "default", pod.Name, pod.Labels, pod.Annotations
	w.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": pods.App(i)}}
	w.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: pod.Spec}
	return w
}

// definition is the custom resource's.
const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: workloads.bench.setpoint.dev}
spec:
  group: bench.setpoint.dev
  scope: Namespaced
  names: {plural: workloads, singular: workload, kind: Workload, listKind: WorkloadList}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// MeasureCustom fills a plane with n custom resources and reads them through both caches.
func MeasureCustom(ctx context.Context, n int) (report.Result, error) {
	p, scheme, err := startWithWorkloads(ctx, n)
	if err != nil {
		return report.Result{}, err
	}
	defer p.Stop()
	theirs, err := measureCustom(ctx, p.RESTConfig(), scheme, n, startPeerCustom)
	if err != nil {
		return report.Result{}, fmt.Errorf("controller-runtime's cache: %w", err)
	}
	ours, err := measureCustom(ctx, p.RESTConfig(), scheme, n, startOursCustom)
	if err != nil {
		return report.Result{}, fmt.Errorf("the cache: %w", err)
	}
	note := fmt.Sprintf("Get of one of %d custom resources of Deployment's shape; peer: controller-runtime's cache", n)
	return report.Cost("cache-read-cr", "ns", ours).Against(theirs, note).AtLeastRatio(1), nil
}

func startWithWorkloads(ctx context.Context, n int) (*plane.Plane, *runtime.Scheme, error) {
	p, err := filled.Start(ctx, 0)
	if err != nil {
		return nil, nil, err
	}
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(workloadKind, &workload{})
	scheme.AddKnownTypeWithName(workloadKind.GroupVersion().WithKind("WorkloadList"), &workloadList{})
	metav1.AddToGroupVersion(scheme, workloadKind.GroupVersion())
	objects, err := manifest.Decode([]byte(definition))
	if err != nil {
		return nil, nil, err
	}
	applier, err := manifest.NewApplier(p.RESTConfig(), "bench")
	if err != nil {
		return nil, nil, err
	}
	if err := applier.Apply(ctx, objects...); err != nil {
		return nil, nil, err
	}
	writer, err := client.New(client.Config{REST: p.RESTConfig(), Scheme: scheme, FieldOwner: "bench"})
	if err != nil {
		return nil, nil, err
	}
	return p, scheme, filled.Each(n, 8, func(i int) error { return writer.Create(ctx, newWorkload(i)) })
}

type getWorkload func(types.NamespacedName, *workload) error

func measureCustom(ctx context.Context, config *rest.Config, scheme *runtime.Scheme, n int,
	start func(context.Context, *rest.Config, *runtime.Scheme) (getWorkload, func(), error)) (float64, error) {
	get, stop, err := start(ctx, config, scheme)
	if err != nil {
		return 0, err
	}
	defer stop()
	keys := make([]types.NamespacedName, n)
	for i := range keys {
		keys[i] = client.KeyOf(newWorkload(i))
	}
	return perCall(func(i int) error { return get(keys[i*7919%n], &workload{}) })
}

func startOursCustom(ctx context.Context, config *rest.Config, scheme *runtime.Scheme) (getWorkload, func(), error) {
	c, stop, err := runOurs(ctx, cache.Config{REST: config, Scheme: scheme}, workloadKind)
	if err != nil {
		return nil, nil, err
	}
	return func(key types.NamespacedName, w *workload) error { return c.Get(ctx, workloadKind, key, w) }, stop, nil
}

func startPeerCustom(ctx context.Context, config *rest.Config, scheme *runtime.Scheme) (getWorkload, func(), error) {
	c, stop, err := runPeer(ctx, config, peercache.Options{Scheme: scheme}, &workload{})
	if err != nil {
		return nil, nil, err
	}
	return func(key types.NamespacedName, w *workload) error { return c.Get(ctx, key, w) }, stop, nil
}
