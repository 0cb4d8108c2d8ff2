package foo

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/condition"
	"github.com/setpoint-dev/setpoint/operators/foo/v1alpha1"
	"github.com/setpoint-dev/setpoint/owner"
)

// statusOf returns the status of foo after a reconcile. What did not change is taken over from the status before,
// times included.
func statusOf(foo *v1alpha1.Foo, o outcome) v1alpha1.FooStatus {
	status := *foo.Status.DeepCopy()
	status.ObservedGeneration = foo.Generation
	status.Selector = selector(foo)
	status.AvailableReplicas = 0
	if o.named != nil && o.action != refuse {
		status.AvailableReplicas = o.named.Status.AvailableReplicas
	}
	for _, d := range o.others {
		status.AvailableReplicas += d.Status.AvailableReplicas
	}
	v := judge(foo, o)
	for _, c := range []struct {
		kind  string
		holds bool
	}{{v1alpha1.ConditionReady, v.ready}, {v1alpha1.ConditionProgressing, v.progressing}} {
		value := metav1.ConditionFalse
		if c.holds {
			value = metav1.ConditionTrue
		}
		condition.Set(&status.Conditions, metav1.Condition{
			Type: c.kind, Status: value, Reason: v.reason, Message: v.message, ObservedGeneration: foo.Generation,
		})
	}
	return status
}

// verdict is what both conditions of a Foo say, for one and the same reason.
type verdict struct {
	ready, progressing bool
	reason, message    string
}

// judge says how foo is doing. Its messages hold no number that moves while Pods come up, so that they cost no write.
func judge(foo *v1alpha1.Foo, o outcome) verdict {
	switch {
	case o.rejected != nil:
		return verdict{reason: v1alpha1.ReasonRejected,
			message: fmt.Sprintf("The server does not accept Deployment %q; change the Foo, or what forbids it: %v", deploymentName(foo), o.rejected)}
	case o.action == refuse:
		return taken(o.named, o.others)
	case o.action == wait:
		return verdict{progressing: true, reason: v1alpha1.ReasonDeploymentDeleting,
			message: fmt.Sprintf("Deployment %q is being deleted; a new one follows when it is gone.", o.named.Name)}
	default:
		return rollout(o.named, replicas(foo))
	}
}

// taken is the verdict on a Foo whose Deployment's name is a stranger's, while those in kept go on.
func taken(stranger *appsv1.Deployment, kept []appsv1.Deployment) verdict {
	by := "nothing controls it"
	if c := owner.ControllerOf(stranger); c != nil {
		by = fmt.Sprintf("%s %q controls it", c.Kind, c.Name)
	}
	message := fmt.Sprintf("Deployment %q exists and is not this Foo's: %s. Delete it, or set spec.deploymentName to a free name.", stranger.Name, by)
	if len(kept) > 0 {
		names := make([]string, len(kept))
		for i, d := range kept {
			names[i] = fmt.Sprintf("%q", d.Name)
		}
		message += fmt.Sprintf(" Until then the Foo keeps %s as it is.", strings.Join(names, ", "))
	}
	return verdict{reason: v1alpha1.ReasonNameTaken, message: message}
}

// rollout is the verdict on a Foo whose Deployment d is to run that many replicas.
func rollout(d *appsv1.Deployment, want int32) verdict {
	s := d.Status
	if s.ObservedGeneration >= d.Generation {
		if c := deploymentCondition(d, appsv1.DeploymentReplicaFailure); c != nil && c.Status == corev1.ConditionTrue {
			return verdict{reason: v1alpha1.ReasonReplicaFailure,
				message: fmt.Sprintf("Deployment %q cannot create Pods: %s", d.Name, c.Message)}
		}
		if c := deploymentCondition(d, appsv1.DeploymentProgressing); c != nil && c.Status == corev1.ConditionFalse {
			return verdict{reason: v1alpha1.ReasonDeadlineExceeded,
				message: fmt.Sprintf("Deployment %q makes no progress; look at its Pods, or change the Foo: %s", d.Name, c.Message)}
		}
		if s.UpdatedReplicas == want && s.Replicas == want && s.AvailableReplicas == want {
			return done(d, want)
		}
	}
	return verdict{progressing: true, reason: v1alpha1.ReasonRollingOut,
		message: fmt.Sprintf("Deployment %q is on its way to %d replicas.", d.Name, want)}
}

// done is the verdict on a Foo whose Deployment d runs as many replicas as it should.
func done(d *appsv1.Deployment, want int32) verdict {
	if want == 0 {
		return verdict{ready: true, reason: v1alpha1.ReasonScaledToZero,
			message: fmt.Sprintf("Deployment %q runs no replicas, as asked for.", d.Name)}
	}
	return verdict{ready: true, reason: v1alpha1.ReasonAvailable,
		message: fmt.Sprintf("All replicas of Deployment %q are up to date and available.", d.Name)}
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
