package test

import (
	"context"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/finalizer"
	"github.com/setpoint-dev/setpoint/owner"
)

// This file is an operator as a user would have it: its kind, what it wants, and how it gets there.

// Website asks for a Deployment and for a DNS record, which Kubernetes knows nothing of.
type Website struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              WebsiteSpec   `json:"spec"`
	Status            WebsiteStatus `json:"status,omitempty"`
}

type WebsiteSpec struct {
	Host     string `json:"host"`
	Replicas int32  `json:"replicas"`
}

type WebsiteStatus struct {
	Ready              int32 `json:"ready"`
	ObservedGeneration int64 `json:"observedGeneration"`
}

type WebsiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Website `json:"items"`
}

// DeepCopyObject implements runtime.Object; a generator writes it for kinds with more in them.
func (w *Website) DeepCopyObject() runtime.Object {
	out := *w
	w.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *WebsiteList) DeepCopyObject() runtime.Object {
	out := *l
	out.Items = make([]Website, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Website)
	}
	return &out
}

func websiteScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	version := schema.GroupVersion{Group: "example.com", Version: "v1"}
	scheme.AddKnownTypes(version, &Website{}, &WebsiteList{})
	metav1.AddToGroupVersion(scheme, version)
	return scheme, clientgoscheme.AddToScheme(scheme)
}

// deploymentFor is pure, so that a plain table tests it: see docs/testing.md.
func deploymentFor(w *Website) *appsv1.Deployment {
	labels := map[string]string{"website": w.Name}
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &w.Spec.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "web", Image: "nginx:1.29", Env: []corev1.EnvVar{{Name: "HOST", Value: w.Spec.Host}},
				}}},
			},
		},
	}
}

const dnsFinalizer = "example.com/dns"

// dns stands for a service outside of the cluster.
type dns struct {
	mu      sync.Mutex
	records map[string]bool
}

func (d *dns) set(host string, exists bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if exists {
		d.records[host] = true
	} else {
		delete(d.records, host)
	}
}

func (d *dns) has(host string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.records[host]
}

// addWebsites declares the controller of Websites.
func addWebsites(m *setpoint.Manager, records *dns) {
	c := m.Client()
	setpoint.For[*Website](m, "websites").
		Owns(&appsv1.Deployment{}).
		Workers(4).
		Reconcile(func(ctx context.Context, w *Website) (setpoint.Result, error) {
			if w.DeletionTimestamp != nil {
				records.set(w.Spec.Host, false)
				return setpoint.Result{}, finalizer.Remove(ctx, c, w, dnsFinalizer)
			}
			if _, err := finalizer.Ensure(ctx, c, w, dnsFinalizer); err != nil {
				return setpoint.Result{}, err
			}
			records.set(w.Spec.Host, true)
			deployment := deploymentFor(w)
			if err := owner.SetController(w, deployment, c.Scheme()); err != nil {
				return setpoint.Result{}, setpoint.Terminal(err)
			}
			if err := c.Apply(ctx, deployment, client.ForceOwnership); err != nil {
				return setpoint.Result{}, err
			}
			before := *w
			w.Status = WebsiteStatus{Ready: deployment.Status.ReadyReplicas, ObservedGeneration: w.Generation}
			return setpoint.Result{}, c.Status().Patch(ctx, w, client.MergeFrom(&before))
		})
}
