package test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/condition"
	"github.com/setpoint-dev/setpoint/operators/foo/v1alpha1"
	"github.com/setpoint-dev/setpoint/owner"
	"github.com/setpoint-dev/setpoint/plane/planetest"
)

// The tests of this file are about what is wrong with the sample controller that others show, one fault each. They run in
// virtual time.

// foos is a plane with the Foo operator, and a user of it.
type foos struct {
	*testing.T
	planetest.Cluster
	user *client.Client
	sent *requestLog
}

func withFoos(t *testing.T, test func(f *foos)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := planetest.New(t)
		user, sent := startFoo(t, p)
		test(&foos{T: t, Cluster: p, user: user, sent: sent})
	})
}

func (f *foos) create(obj client.Object) {
	f.Helper()
	if err := f.user.Create(f.Context(), obj); err != nil {
		f.Fatal(err)
	}
}

func deploymentNamed(name string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

// A Foo without a deploymentName is dropped in silence. Here it has a Deployment of its own name.
func TestFooFaultEmptyNameIsDropped(t *testing.T) {
	withFoos(t, func(f *foos) {
		f.create(newFoo("web", 1))
		planetest.Wait(f.T, f, deploymentNamed("web"), func(d *appsv1.Deployment) bool { return d.Status.AvailableReplicas == 1 })
	})
}

// A new deploymentName leaves the old Deployment running. Here it goes once the new one is there.
func TestFooFaultRenamingOrphans(t *testing.T) {
	withFoos(t, func(f *foos) {
		web := newFoo("web", 1)
		f.create(web)
		old := planetest.Wait(f.T, f, deploymentNamed("web"), exists)
		mergePatch(f.T, f.user, web, `{"spec":{"deploymentName":"other"}}`)
		planetest.WaitGone(f.T, f, old)
		planetest.Wait(f.T, f, deploymentNamed("other"), exists)
	})
}

// An update with a new object takes away what others have written. Here it stays.
func TestFooFaultUpdateClobbersOthers(t *testing.T) {
	withFoos(t, func(f *foos) {
		web := newFoo("web", 1)
		f.create(web)
		child := planetest.Wait(f.T, f, deploymentNamed("web"), exists)
		mergePatch(f.T, f.user, child, `{"metadata":{"annotations":{"a":"b"}},"spec":{"template":{"spec":{"terminationGracePeriodSeconds":7}}}}`)
		mergePatch(f.T, f.user, web, `{"spec":{"replicas":2}}`)
		child = planetest.Wait(f.T, f, deploymentNamed("web"), func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 2 })
		if child.Annotations["a"] != "b" || *child.Spec.Template.Spec.TerminationGracePeriodSeconds != 7 {
			f.Errorf("what somebody else wrote is gone: %v", child.Annotations)
		}
	})
}

// Each pass writes the status and an Event. Here passes that change nothing send nothing.
func TestFooFaultWritesOnEachPass(t *testing.T) {
	withFoos(t, func(f *foos) {
		web := newFoo("web", 1)
		f.create(web)
		planetest.Wait(f.T, f, web, available)
		time.Sleep(time.Minute)
		f.sent.take()
		for _, value := range []string{"1", "2", "3"} {
			mergePatch(f.T, f.user, web, `{"metadata":{"labels":{"pass":"`+value+`"}}}`)
			time.Sleep(time.Minute)
		}
		for _, line := range f.sent.take() {
			if !strings.Contains(line, "/leases/") && !strings.HasPrefix(line, "WATCH ") {
				f.Errorf("with nothing to do it asked for %s", line)
			}
		}
	})
}

// An owner counts by its kind's name alone, so that a Foo of another group owns the Deployment, and so does one that is
// gone. Here only the UID counts.
func TestFooFaultOwnerByKind(t *testing.T) {
	withFoos(t, func(f *foos) {
		web := newFoo("web", 1)
		stranger := deploymentOf("web", []metav1.OwnerReference{{
			APIVersion: "example.com/v1", Kind: "Foo", Name: "web", UID: types.UID("of-another-group"), Controller: new(true),
		}})
		f.create(stranger)
		f.create(web)
		planetest.Wait(f.T, f, web, nameTaken)
		got := planetest.Wait(f.T, f, deploymentNamed("web"), exists)
		if *got.Spec.Replicas != 1 || got.Spec.Template.Spec.Containers[0].Image != "c" || owner.ControllerOf(got).UID != "of-another-group" {
			f.Errorf("it was taken over: %+v", got.Spec)
		}
		if err := f.user.Delete(f.Context(), got); err != nil {
			f.Fatal(err)
		}
		planetest.Wait(f.T, f, web, available)
	})
}

// deploymentOf returns a Deployment that somebody else made.
func deploymentOf(name string, owners []metav1.OwnerReference) *appsv1.Deployment {
	d := deploymentNamed(name)
	d.OwnerReferences = owners
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"of": "others"}}
	d.Spec.Template = corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: d.Spec.Selector.MatchLabels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}},
	}
	return d
}

func nameTaken(f *v1alpha1.Foo) bool {
	c, _ := condition.Get(f.Status.Conditions, v1alpha1.ConditionReady)
	return c.Reason == v1alpha1.ReasonNameTaken
}

// A Deployment that is somebody else's is an error that is tried again for ever. Here it is said once, costs nothing, and
// is over when the other one goes.
func TestFooFaultEndlessRetry(t *testing.T) {
	withFoos(t, func(f *foos) {
		stranger := deploymentOf("web", nil)
		f.create(stranger)
		web := newFoo("web", 1)
		f.create(web)
		web = planetest.Wait(f.T, f, web, nameTaken)
		awaitEvent(f.T, f, func(e *eventsv1.Event) bool {
			return e.Regarding.UID == web.UID && e.Reason == v1alpha1.ReasonNameTaken
		})
		time.Sleep(time.Minute)
		f.sent.take()
		time.Sleep(5 * time.Minute)
		for _, line := range f.sent.take() {
			if strings.Contains(line, "/namespaces/default/deployments") || strings.Contains(line, "/foos") && !strings.HasPrefix(line, "WATCH ") {
				f.Errorf("while it waits it asked for %s", line)
			}
		}
		if err := f.user.Delete(f.Context(), stranger); err != nil {
			f.Fatal(err)
		}
		planetest.Wait(f.T, f, web, available)
	})
}

// Only the number of replicas is looked at. Here an image that somebody changed comes back, and so does the label by which
// people find it.
func TestFooFaultOnlyReplicasHeal(t *testing.T) {
	withFoos(t, func(f *foos) {
		f.create(newFoo("web", 1))
		child := planetest.Wait(f.T, f, deploymentNamed("web"), exists)
		label := child.Labels["app.kubernetes.io/instance"]
		if err := f.user.Patch(f.Context(), child, client.RawPatch(types.StrategicMergePatchType, []byte(
			`{"metadata":{"labels":{"app.kubernetes.io/instance":"x"}},"spec":{"template":{"spec":{"containers":[{"name":"foo","image":"other:1"}]}}}}`))); err != nil {
			f.Fatal(err)
		}
		planetest.Wait(f.T, f, deploymentNamed("web"), func(d *appsv1.Deployment) bool {
			return d.Spec.Template.Spec.Containers[0].Image == "nginx:latest" && d.Labels["app.kubernetes.io/instance"] == label
		})
	})
}

// There are no conditions and no observedGeneration. Here no status claims of a generation what is not so yet.
func TestFooFaultNoConditions(t *testing.T) {
	withFoos(t, func(f *foos) {
		web := newFoo("web", 1)
		f.create(web)
		planetest.Wait(f.T, f, web, available)
		mergePatch(f.T, f.user, web, `{"spec":{"replicas":4}}`)
		planetest.Wait(f.T, f, web, func(foo *v1alpha1.Foo) bool {
			ready := condition.IsTrueFor(foo.Status.Conditions, v1alpha1.ConditionReady, foo.Generation)
			if ready && foo.Status.AvailableReplicas != *foo.Spec.Replicas {
				f.Errorf("it is ready with %d of %d", foo.Status.AvailableReplicas, *foo.Spec.Replicas)
			}
			return ready && *foo.Spec.Replicas == 4
		})
	})
}
