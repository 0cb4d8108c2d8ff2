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
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/condition"
	"github.com/setpoint-dev/setpoint/lease"
	"github.com/setpoint-dev/setpoint/operators/foo"
	"github.com/setpoint-dev/setpoint/operators/foo/v1alpha1"
	"github.com/setpoint-dev/setpoint/owner"
	"github.com/setpoint-dev/setpoint/plane"
	"github.com/setpoint-dev/setpoint/plane/planetest"
)

// The tests of this file are about what is wrong with the sample controller that others show, one fault each. They run in
// virtual time.

// withFoos runs a test on a plane with the Foo operator.
func withFoos(t *testing.T, test func(f *scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := planetest.New(t)
		user, sent := startFoo(t, p)
		test(&scene{T: t, Cluster: p, user: user, sent: sent})
	})
}

func deploymentNamed(name string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

// A Foo without a deploymentName is dropped in silence. Here it has a Deployment of its own name.
func TestFooFaultEmptyNameIsDropped(t *testing.T) {
	withFoos(t, func(f *scene) {
		f.create(newFoo("web", 1))
		planetest.Wait(f.T, f, deploymentNamed("web"), func(d *appsv1.Deployment) bool { return d.Status.AvailableReplicas == 1 })
	})
}

// A new deploymentName leaves the old Deployment running. Here it goes once the new one is there.
func TestFooFaultRenamingOrphans(t *testing.T) {
	withFoos(t, func(f *scene) {
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
	withFoos(t, func(f *scene) {
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
	withFoos(t, func(f *scene) {
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
	withFoos(t, func(f *scene) {
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
		f.remove(got)
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
	withFoos(t, func(f *scene) {
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
		f.remove(stranger)
		planetest.Wait(f.T, f, web, available)
	})
}

// Only the number of replicas is looked at. Here an image that somebody changed comes back, and so does the label by which
// people find it.
func TestFooFaultOnlyReplicasHeal(t *testing.T) {
	withFoos(t, func(f *scene) {
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
	withFoos(t, func(f *scene) {
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

// TestFooRole: the operator can do all of its work with the rights of its manifest, and needs each of them.
func TestFooRole(t *testing.T) {
	// This right is for servers that mind who blocks a deletion, as planes do not.
	blocking := "- apiGroups: [sample.setpoint.dev]\n  resources: [foos/finalizers]\n  verbs: [update]\n"
	rbac := strings.Replace(foo.RBAC(), blocking, "", 1)
	if rbac == foo.RBAC() {
		t.Fatal("the manifest has no rule about foos/finalizers any more: neither should this test")
	}
	eachRuleNeeded(t, plane.Config{}, rbac, func(t testing.TB, p planetest.Cluster, operator *rest.Config) {
		scheme := fooScheme(t)
		planetest.Apply(t, p, "../operators/foo/manifests/sample.setpoint.dev_foos.yaml")
		user, err := client.New(client.Config{REST: p.RESTConfig(), Scheme: scheme, FieldOwner: "test"})
		if err != nil {
			t.Fatal(err)
		}
		operator.Wrap(anotherFirst(t, user, deploymentOf("web", nil), "POST /apis/apps/v1/namespaces/default/deployments"))
		m, err := setpoint.NewManager(setpoint.Config{
			REST: operator, Scheme: scheme, FieldOwner: "setpoint-foo", Seed: 1,
			LeaderElection: &lease.Config{Namespace: "setpoint-system", Name: "setpoint-foo"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := foo.Setup(m); err != nil {
			t.Fatal(err)
		}
		begin(t, m)
		web := newFoo("web", 1)
		if err := user.Create(t.Context(), web); err != nil {
			t.Fatal(err)
		}
		planetest.Wait(t, p, web, nameTaken) // by one that the cache did not know
		for range 3 {
			before := planetest.Wait(t, p, deploymentNamed("web"), exists)
			if err := user.Delete(t.Context(), before); err != nil {
				t.Fatal(err)
			}
			planetest.Wait(t, p, deploymentNamed("web"), func(d *appsv1.Deployment) bool { return d.UID != before.UID })
		}
		// What was created several times is one Event, of a series.
		awaitEvent(t, p, func(e *eventsv1.Event) bool {
			return e.Regarding.UID == web.UID && e.Reason == "DeploymentCreated" && e.Series != nil
		})
		if err := user.Patch(t.Context(), web, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"deploymentName":"other"}}`))); err != nil {
			t.Fatal(err)
		}
		planetest.WaitGone(t, p, deploymentNamed("web"))
		planetest.Wait(t, p, web, available)
	})
}
