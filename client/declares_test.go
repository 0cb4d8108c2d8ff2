package client

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields/managedfieldstest"
	"k8s.io/client-go/applyconfigurations"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/setpoint-dev/setpoint/apply"
)

var deploymentKind = appsv1.SchemeGroupVersion.WithKind("Deployment")

// TestLaw6NoOpApplyAgreesWithTheServer compares the client's judgement with the API server's own code for field
// ownership, over random applies and random changes by others: where the client says that an apply changes
// nothing, the server's code must agree; and it must say so when nobody changed anything since.
func TestLaw6NoOpApplyAgreesWithTheServer(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	converter := applyconfigurations.NewTypeConverter(clientgoscheme.Scheme)
	skipped, sent := 0, 0
	for i := range uint64(10) {
		t.Run(fmt.Sprint("seed ", seed+i), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed+i, 0))
			server := managedfieldstest.NewTestFieldManager(converter, deploymentKind)
			want := randomDeployment(r)
			apply6(t, server, want, "me")
			for range 12 {
				undisturbed := true
				switch r.IntN(5) {
				case 0:
					want = randomDeployment(r)
				case 4:
					want = reversed(want)
				case 1:
					apply6(t, server, randomDeployment(r), "other")
					undisturbed = false
				case 2:
					if err := server.Update(drifted(t, r, server.Live()), "editor"); err != nil {
						t.Fatal(err)
					}
					undisturbed = false
				}
				// What the server defaults is there before the next apply.
				if err := server.Update(defaulted(t, server.Live()), "defaulter"); err != nil {
					t.Fatal(err)
				}
				before := state(t, server)
				fields := toUnstructured(t, want)
				says := declares(appliedFields(server.ManagedFields(), "me", "apps/v1", ""), fields.Object, toUnstructured(t, server.Live()).Object)
				apply6(t, server, want, "me")
				changed := cmp.Diff(before, state(t, server))
				if says {
					skipped++
				} else {
					sent++
				}
				if says && changed != "" {
					t.Fatalf("said to change nothing, but did (-before +after):\n%s\napplied: %s", changed, text(t, fields))
				}
				if undisturbed && !says && changed == "" {
					t.Fatalf("nobody changed anything, yet an apply that changes nothing is not recognised: %s\nlive: %s", text(t, fields), before)
				}
			}
		})
	}
	if skipped == 0 || sent == 0 {
		t.Errorf("the test compared nothing: %d skipped, %d sent", skipped, sent)
	}
}

func apply6(t *testing.T, server managedfieldstest.TestFieldManager, want *appsv1.Deployment, manager string) {
	t.Helper()
	if err := server.Apply(toUnstructured(t, want), manager, true); err != nil {
		t.Fatal(err)
	}
}

// state is what the server holds, without the times of the managers' last changes.
func state(t *testing.T, server managedfieldstest.TestFieldManager) string {
	live := toUnstructured(t, server.Live())
	var owners []string
	for _, entry := range server.ManagedFields() {
		owners = append(owners, fmt.Sprintf("%s %s %s", entry.Manager, entry.Operation, entry.FieldsV1.GetRawString()))
	}
	live.SetManagedFields(nil)
	return text(t, live) + "\n" + strings.Join(owners, "\n")
}

func text(t *testing.T, obj any) string {
	t.Helper()
	data, err := json.MarshalIndent(obj, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func toUnstructured(t *testing.T, obj runtime.Object) *unstructured.Unstructured {
	t.Helper()
	fields, err := apply.From(obj, deploymentKind)
	if err != nil {
		t.Fatal(err)
	}
	return fields
}

// reversed is the deployment with its lists in the opposite order.
func reversed(d *appsv1.Deployment) *appsv1.Deployment {
	d = d.DeepCopy()
	slices.Reverse(d.Finalizers)
	slices.Reverse(d.Spec.Template.Spec.Containers)
	return d
}

// drifted is the live object with a random change by somebody else.
func drifted(t *testing.T, r *rand.Rand, live runtime.Object) *unstructured.Unstructured {
	t.Helper()
	d := typed(t, live)
	pod := &d.Spec.Template.Spec
	switch r.IntN(5) {
	case 0:
		d.Spec.Replicas = pointer(int32(r.IntN(3)))
	case 1:
		pod.Containers = append(pod.Containers, corev1.Container{Name: "injected", Image: "proxy"})
	case 2:
		pod.Containers[0].Image = "changed"
	case 3:
		d.Labels = map[string]string{"theirs": "x"}
	case 4:
		pod.Containers = pod.Containers[:1]
	}
	return typedBack(t, &d)
}

// defaulted is the live object after the server's defaulting.
func defaulted(t *testing.T, live runtime.Object) *unstructured.Unstructured {
	t.Helper()
	d := typed(t, live)
	for _, c := range d.Spec.Template.Spec.Containers {
		for i := range c.Ports {
			if c.Ports[i].Protocol == "" {
				c.Ports[i].Protocol = corev1.ProtocolTCP
			}
		}
	}
	return typedBack(t, &d)
}

func typed(t *testing.T, live runtime.Object) (d appsv1.Deployment) {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.(*unstructured.Unstructured).Object, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func typedBack(t *testing.T, d *appsv1.Deployment) *unstructured.Unstructured {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(d)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: fields}
	u.SetGroupVersionKind(deploymentKind)
	return u
}

func pointer[T any](v T) *T { return &v }

// randomDeployment has lists of all kinds: by key, by keys with a default, sets, and atomic ones.
func randomDeployment(r *rand.Rand) *appsv1.Deployment {
	maybe := func() bool { return r.IntN(2) == 0 }
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	d.Spec.Template.Labels = map[string]string{"app": "web"}
	if maybe() {
		d.Labels = map[string]string{"app": "web", "tier": fmt.Sprint(r.IntN(2))}
	}
	if maybe() {
		d.Finalizers = [][]string{{"a.dev/x"}, {"a.dev/x", "b.dev/y"}, {"b.dev/y", "a.dev/x"}}[r.IntN(3)]
	}
	if maybe() {
		d.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "a.dev/v1", Kind: "Owner", Name: fmt.Sprint("owner-", r.IntN(2)), UID: "owner", Controller: pointer(true),
		}}
	}
	if maybe() {
		d.Spec.Replicas = pointer(int32(r.IntN(3)))
	}
	pod := &d.Spec.Template.Spec
	names := []string{"main", "log", "side"}
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names[:1+r.IntN(3)] {
		c := corev1.Container{Name: name, Image: fmt.Sprint("image:", r.IntN(2))}
		if maybe() {
			c.Args = []string{"--v", fmt.Sprint(r.IntN(2))}
		}
		if maybe() {
			c.Ports = append(c.Ports, corev1.ContainerPort{ContainerPort: 80})
		}
		if maybe() {
			c.Ports = append(c.Ports, corev1.ContainerPort{Name: "dns", ContainerPort: 80, Protocol: corev1.ProtocolUDP})
		}
		if maybe() {
			c.Env = append(c.Env, corev1.EnvVar{Name: "A", Value: fmt.Sprint(r.IntN(2))},
				corev1.EnvVar{Name: "B", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}})
		}
		if maybe() {
			c.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
		}
		pod.Containers = append(pod.Containers, c)
	}
	if maybe() {
		pod.Volumes = []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	}
	if maybe() {
		pod.NodeSelector = map[string]string{"disk": "fast"}
	}
	if maybe() {
		pod.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}
	}
	return d
}
