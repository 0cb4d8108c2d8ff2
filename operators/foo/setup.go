package foo

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/operators/foo/v1alpha1"
	"github.com/setpoint-dev/setpoint/owner"
)

// Name is the operator's name: of its controller, its lease and its field manager.
const Name = "foo"

const (
	// controllerIndex finds Deployments by the UID of what controls them.
	controllerIndex = "controller"
	// deploymentIndex finds Foos by the name of the Deployment they want.
	deploymentIndex = "deployment"
	// workers is how many Foos are reconciled at once.
	workers = 4
)

//go:embed manifests/sample.setpoint.dev_foos.yaml
var crd string

//go:embed manifests/rbac.yaml
var rbac string

// CRD returns the CustomResourceDefinition of Foo as YAML.
func CRD() string { return crd }

// RBAC returns, as YAML, the ServiceAccount setpoint-foo in the namespace setpoint-system and the least that it needs to
// be allowed: what the operator does in every namespace, and its lease in its own.
func RBAC() string { return rbac }

// AddToScheme teaches a manager's scheme the kinds that the operator needs beside the built-in ones.
func AddToScheme(s *runtime.Scheme) error { return v1alpha1.AddToScheme(s) }

// Setup adds the operator to a manager whose scheme knows AddToScheme's kinds.
func Setup(m *setpoint.Manager) error {
	fooKind := v1alpha1.GroupVersion.WithKind("Foo")
	deploymentKind := appsv1.SchemeGroupVersion.WithKind("Deployment")
	err := errors.Join(
		m.Cache().Index(deploymentKind, controllerIndex, controllerUID),
		m.Cache().Index(fooKind, deploymentIndex, wantedName),
	)
	if err != nil {
		return fmt.Errorf("setting up the operator %s: %w", Name, err)
	}
	r := &reconciler{client: m.Client(), events: m.Events(Name)}
	setpoint.For[*v1alpha1.Foo](m, Name).
		Owns(&appsv1.Deployment{}).
		Watches(&appsv1.Deployment{}, r.wanting).
		Workers(workers).
		Reconcile(r.reconcile)
	return nil
}

// controllerUID is the value of controllerIndex.
func controllerUID(obj runtime.Object) []string {
	if c := owner.ControllerOf(obj.(metav1.Object)); c != nil {
		return []string{string(c.UID)}
	}
	return nil
}

// wantedName is the value of deploymentIndex.
func wantedName(obj runtime.Object) []string {
	return []string{deploymentName(obj.(*v1alpha1.Foo))}
}

// wanting names the Foos that want a Deployment's name without controlling it: they wait for it to go.
func (r *reconciler) wanting(ctx context.Context, deployment client.Object) []setpoint.Request {
	var foos v1alpha1.FooList
	// A Foo that the cache does not have yet is reconciled when it arrives.
	err := r.client.List(ctx, &foos, client.InNamespace(deployment.GetNamespace()),
		client.MatchingFields{deploymentIndex: deployment.GetName()}, client.AllowStale)
	if err != nil {
		setpoint.Logger(ctx).Error("Finding the Foos that wait for a Deployment's name", "deployment", client.KeyOf(deployment), "error", err)
		return nil
	}
	var requests []setpoint.Request
	for i := range foos.Items {
		if foo := &foos.Items[i]; !owner.IsControlledBy(deployment, foo) {
			requests = append(requests, setpoint.RequestFor(foo))
		}
	}
	return requests
}
