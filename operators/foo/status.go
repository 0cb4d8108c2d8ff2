package foo

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/condition"
	"github.com/setpoint-dev/setpoint/operators/foo/v1alpha1"
)

// verdict is what the two conditions of a Foo say, for one and the same reason.
type verdict struct {
	ready, progressing bool
	reason, message    string
}

// statusOf returns the status of foo after act was carried out on the Deployment of the wanted name, while the Foo's other
// Deployments exist beside it. What does not change is taken over from the status before, times included.
func statusOf(foo *v1alpha1.Foo, act action, named *appsv1.Deployment, others []appsv1.Deployment) v1alpha1.FooStatus {
	var v verdict
	status := *foo.Status.DeepCopy()
	status.ObservedGeneration = foo.Generation
	status.Selector = selector(foo)
	status.AvailableReplicas = 0
	switch act {
	case refuse:
		v = taken(named, others)
	case wait:
		v = verdict{progressing: true, reason: v1alpha1.ReasonDeploymentDeleting,
			message: fmt.Sprintf("Deployment %q is being deleted; a new one follows when it is gone.", named.Name)}
		status.AvailableReplicas = named.Status.AvailableReplicas
	default:
		v = rollout(named, replicas(foo))
		status.AvailableReplicas = named.Status.AvailableReplicas
	}
	for _, d := range others {
		status.AvailableReplicas += d.Status.AvailableReplicas
	}
	set := func(kind string, holds bool) {
		value := metav1.ConditionFalse
		if holds {
			value = metav1.ConditionTrue
		}
		condition.Set(&status.Conditions, metav1.Condition{
			Type: kind, Status: value, Reason: v.reason, Message: v.message, ObservedGeneration: foo.Generation,
		})
	}
	set(v1alpha1.ConditionReady, v.ready)
	set(v1alpha1.ConditionProgressing, v.progressing)
	return status
}

// taken is the verdict on a Foo whose Deployment's name belongs to the stranger's.
func taken(stranger *appsv1.Deployment, kept []appsv1.Deployment) verdict {
	owner := "nobody controls it"
	if c := metav1.GetControllerOf(stranger); c != nil {
		owner = fmt.Sprintf("%s %q controls it", c.Kind, c.Name)
	}
	message := fmt.Sprintf("Deployment %q exists and is not this Foo's (%s). Delete it, or set spec.deploymentName to a free name.", stranger.Name, owner)
	if len(kept) > 0 {
		names := make([]string, len(kept))
		for i, d := range kept {
			names[i] = fmt.Sprintf("%q", d.Name)
		}
		message += fmt.Sprintf(" Until then the Foo keeps running %s.", strings.Join(names, ", "))
	}
	return verdict{reason: v1alpha1.ReasonNameTaken, message: message}
}

// rollout is the verdict on a Foo whose Deployment d is to run that many replicas.
func rollout(d *appsv1.Deployment, want int32) verdict {
	s := d.Status
	seen := s.ObservedGeneration >= d.Generation
	if seen {
		if c := deploymentCondition(d, appsv1.DeploymentReplicaFailure); c != nil && c.Status == corev1.ConditionTrue {
			return verdict{reason: v1alpha1.ReasonReplicaFailure,
				message: fmt.Sprintf("Deployment %q cannot create Pods: %s", d.Name, c.Message)}
		}
		if c := deploymentCondition(d, appsv1.DeploymentProgressing); c != nil && c.Status == corev1.ConditionFalse {
			return verdict{reason: v1alpha1.ReasonDeadlineExceeded,
				message: fmt.Sprintf("Deployment %q makes no progress; see why its Pods do not become ready, or change the Foo: %s", d.Name, c.Message)}
		}
	}
	if seen && s.UpdatedReplicas == want && s.Replicas == want && s.AvailableReplicas == want {
		if want == 0 {
			return verdict{ready: true, reason: v1alpha1.ReasonScaledToZero,
				message: fmt.Sprintf("Deployment %q runs no replicas, as asked for.", d.Name)}
		}
		return verdict{ready: true, reason: v1alpha1.ReasonAvailable,
			message: fmt.Sprintf("All replicas asked for of Deployment %q are available.", d.Name)}
	}
	return verdict{progressing: true, reason: v1alpha1.ReasonRollingOut,
		message: fmt.Sprintf("Deployment %q is on its way to %d replicas.", d.Name, want)}
}

// deploymentCondition returns d's condition of that type, or nil.
func deploymentCondition(d *appsv1.Deployment, kind appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range d.Status.Conditions {
		if d.Status.Conditions[i].Type == kind {
			return &d.Status.Conditions[i]
		}
	}
	return nil
}
