package memcached

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/setpoint-dev/setpoint/operators/memcached/v1"
	"github.com/setpoint-dev/setpoint/operators/memcached/v1alpha1"
)

// random makes objects from a seed.
type random struct{ *rand.Rand }

func maybe[T any](r random, value T) (out T) {
	if r.IntN(3) > 0 {
		return value
	}
	return out
}

func pick[T any](r random, values ...T) T { return values[r.IntN(len(values))] }

func (r random) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "default", Name: "x", UID: "u", Generation: r.Int64N(9),
		Labels:      maybe(r, map[string]string{"team": "web"}),
		Annotations: maybe(r, map[string]string{"note": "kept"}),
	}
}

func (r random) conditions() []metav1.Condition {
	return maybe(r, []metav1.Condition{{Type: "Available", Status: "True", Reason: "Ready", LastTransitionTime: metav1.NewTime(time.Unix(r.Int64N(1e9), 0))}})
}

func (r random) hub() *v1.Memcached {
	return &v1.Memcached{
		ObjectMeta: r.meta(),
		Spec: v1.MemcachedSpec{
			Size: maybe(r, new(r.Int32N(100))), Image: pick(r, "", "memcached:1.6"), ContainerPort: maybe(r, r.Int32N(65535)),
			MemoryLimitMB: maybe(r, new(1+r.Int32N(maxMemory))),
			Resources: maybe(r, corev1.ResourceRequirements{
				Limits: maybe(r, corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(pick(r, "1Gi", "1500M", "0.5"))}),
			}),
			ExtraArgs: maybe(r, []string{"-c", pick(r, "1024", "2048")}),
		},
		Status: v1.MemcachedStatus{
			Nodes: maybe(r, []string{"x-0", "x-1"}), Replicas: r.Int32N(2), ReadyReplicas: r.Int32N(2),
			Selector: pick(r, "", "a=b"), ObservedGeneration: r.Int64N(2), Conditions: r.conditions(),
		},
	}
}

func (r random) alpha() *v1alpha1.Memcached {
	return &v1alpha1.Memcached{
		ObjectMeta: r.meta(),
		Spec: v1alpha1.MemcachedSpec{
			Size: maybe(r, new(r.Int32N(100))), Image: pick(r, "", "memcached:1.6"), ContainerPort: maybe(r, r.Int32N(65535)),
			Memory: maybe(r, new(resource.MustParse(pick(r, "64Mi", "1Gi", "1", "1500k", "64.5Mi", "2e9", "1Ti")))),
		},
		Status: v1alpha1.MemcachedStatus{Nodes: maybe(r, []string{"x-0", "x-1"}), Conditions: r.conditions()},
	}
}

// toHub and toAlpha convert as package webhook does: the metadata comes along.
func toHub(t *testing.T, from *v1alpha1.Memcached) *v1.Memcached {
	t.Helper()
	to := &v1.Memcached{ObjectMeta: *from.ObjectMeta.DeepCopy()}
	if err := alphaToHub(t.Context(), from.DeepCopy(), to); err != nil {
		t.Fatal(err)
	}
	return to
}

func toAlpha(t *testing.T, from *v1.Memcached) *v1alpha1.Memcached {
	t.Helper()
	to := &v1alpha1.Memcached{ObjectMeta: *from.ObjectMeta.DeepCopy()}
	if err := hubToAlpha(t.Context(), from.DeepCopy(), to); err != nil {
		t.Fatal(err)
	}
	return to
}

func TestConversionLosesNothing(t *testing.T) {
	for seed := range uint64(3000) {
		r := random{rand.New(rand.NewPCG(seed, 0))}
		hub := r.hub()
		if back := toHub(t, toAlpha(t, hub)); !equality.Semantic.DeepEqual(hub, back) {
			t.Fatalf("seed %d: v1 by v1alpha1 (-before +after):\n%s", seed, cmp.Diff(hub, back))
		}
		alpha := r.alpha()
		if back := toAlpha(t, toHub(t, alpha)); !equality.Semantic.DeepEqual(alpha, back) {
			t.Fatalf("seed %d: v1alpha1 by v1 (-before +after):\n%s", seed, cmp.Diff(alpha, back))
		}
	}
}

func TestConversionHeedsWhatWasChangedBetween(t *testing.T) {
	// What only v1 knows stays when v1alpha1 is edited.
	hub := &v1.Memcached{Spec: v1.MemcachedSpec{Size: new(int32(3)), MemoryLimitMB: new(int32(64)), ExtraArgs: []string{"-c", "9"}}}
	alpha := toAlpha(t, hub)
	alpha.Spec.Size, alpha.Spec.Memory = new(int32(4)), new(resource.MustParse("100.5Mi"))
	hub = toHub(t, alpha)
	if *hub.Spec.Size != 4 || *hub.Spec.MemoryLimitMB != 101 || len(hub.Spec.ExtraArgs) != 2 {
		t.Errorf("v1 is %+v", hub.Spec)
	}
	// How v1alpha1 wrote its memory counts only until v1 says something else.
	if memory := toAlpha(t, hub).Spec.Memory; memory.Cmp(resource.MustParse("100.5Mi")) != 0 {
		t.Errorf("v1alpha1 says %s", memory)
	}
	hub.Spec.MemoryLimitMB = new(int32(128))
	if memory := toAlpha(t, hub).Spec.Memory; memory.String() != "128Mi" {
		t.Errorf("v1alpha1 says %s, though v1 was changed", memory)
	}
}

func TestConversionSaysWhatIsWrong(t *testing.T) {
	for why, alpha := range map[string]*v1alpha1.Memcached{
		"no memory":  {Spec: v1alpha1.MemcachedSpec{Memory: new(resource.MustParse("0"))}},
		"too much":   {Spec: v1alpha1.MemcachedSpec{Memory: new(resource.MustParse("2Ti"))}},
		"annotation": {ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{beyondAlpha: "{"}}},
	} {
		if err := alphaToHub(t.Context(), alpha, &v1.Memcached{}); err == nil {
			t.Errorf("%s: no error", why)
		}
	}
}
