package foo

import (
	appsv1 "k8s.io/api/apps/v1"

	"github.com/setpoint-dev/setpoint/operators/foo/v1alpha1"
	"github.com/setpoint-dev/setpoint/owner"
)

// action is what a reconcile does about the Deployment of the wanted name.
type action int

const (
	// leave does nothing at all: the Foo is gone.
	leave action = iota
	// create makes it: there is none.
	create
	// apply brings the Foo's own Deployment back to what the Foo asks for.
	apply
	// wait does nothing until the Foo's own Deployment, which is being deleted, is gone.
	wait
	// refuse does nothing until somebody else's Deployment is gone.
	refuse
)

// decide says what to do about the Deployment of the name that foo wants, which is nil when there is none.
func decide(foo *v1alpha1.Foo, named *appsv1.Deployment) action {
	switch {
	case named == nil:
		return create
	case !owner.IsControlledBy(named, foo):
		return refuse
	case named.DeletionTimestamp != nil:
		return wait
	default:
		return apply
	}
}

// othersOf returns those of the Deployments controlled by foo that have another name than it wants: left from before a
// change of spec.deploymentName.
func othersOf(foo *v1alpha1.Foo, controlled []appsv1.Deployment) []appsv1.Deployment {
	var others []appsv1.Deployment
	for _, d := range controlled {
		if d.Name != deploymentName(foo) {
			others = append(others, d)
		}
	}
	return others
}

// outcome is what a reconcile found and did.
type outcome struct {
	action action
	// named is the Deployment of the wanted name as it is now: nil when there is none.
	named *appsv1.Deployment
	// others are the Deployments of other names that the Foo still controls.
	others []appsv1.Deployment
	// rejected is the server's answer when it did not accept the Deployment.
	rejected error
}
