package workload

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func pendingClaim(change ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "data", UID: "u",
			Annotations: map[string]string{"volume.kubernetes.io/storage-provisioner": Provisioner},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			VolumeMode:  new(corev1.PersistentVolumeBlock),
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("3Gi")}},
		},
	}
	for _, c := range change {
		c(claim)
	}
	return claim
}

func TestWantsVolume(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*corev1.PersistentVolumeClaim)
		want   bool
	}{
		"ours": {func(*corev1.PersistentVolumeClaim) {}, true},
		"of another": {func(c *corev1.PersistentVolumeClaim) {
			c.Annotations["volume.kubernetes.io/storage-provisioner"] = "other"
		}, false},
		"of nobody":    {func(c *corev1.PersistentVolumeClaim) { c.Annotations = nil }, false},
		"has a volume": {func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "v" }, false},
		"deleted":      {func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = &metav1.Time{} }, false},
	} {
		if got := wantsVolume(pendingClaim(test.change)); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

func TestVolumeFor(t *testing.T) {
	claim := pendingClaim()
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "kept"}, ReclaimPolicy: new(corev1.PersistentVolumeReclaimRetain)}
	v := volumeFor(claim, class)
	if v.Name != "pvc-u" || v.Spec.StorageClassName != "kept" || v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain ||
		v.Spec.ClaimRef.UID != "u" || v.Spec.ClaimRef.Namespace != "ns" || v.Spec.ClaimRef.Name != "data" ||
		*v.Spec.VolumeMode != corev1.PersistentVolumeBlock || v.Spec.Capacity.Storage().String() != "3Gi" ||
		!slices.Equal(v.Spec.AccessModes, claim.Spec.AccessModes) {
		t.Errorf("volume is %s", v.String())
	}
	class.ReclaimPolicy = nil
	if v := volumeFor(claim, class); v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		t.Errorf("without a policy the volume's is %s", v.Spec.PersistentVolumeReclaimPolicy)
	}
}

func TestIsReleased(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*corev1.PersistentVolume)
		want   bool
	}{
		"released": {func(*corev1.PersistentVolume) {}, true},
		"bound":    {func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeBound }, false},
		"to be kept": {func(v *corev1.PersistentVolume) {
			v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		}, false},
		"of a user": {func(v *corev1.PersistentVolume) { v.Annotations = nil }, false},
		"deleted":   {func(v *corev1.PersistentVolume) { v.DeletionTimestamp = &metav1.Time{} }, false},
	} {
		v := volumeFor(pendingClaim(), &storagev1.StorageClass{})
		v.Status.Phase = corev1.VolumeReleased
		test.change(v)
		if got := isReleased(v); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

func TestSurplus(t *testing.T) {
	begin := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	pod := func(name string, age int, phase corev1.PodPhase) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(begin.Add(-time.Duration(age) * time.Second))},
			Status:     corev1.PodStatus{Phase: phase},
		}
	}
	pods := []*corev1.Pod{
		pod("young", 1, corev1.PodSucceeded), pod("running", 9, corev1.PodRunning), pod("old", 5, corev1.PodFailed),
		pod("older-b", 7, corev1.PodSucceeded), pod("older-a", 7, corev1.PodSucceeded),
	}
	var names []string
	for _, p := range surplus(pods, 2) {
		names = append(names, p.Name)
	}
	if want := []string{"older-a", "older-b"}; !slices.Equal(names, want) {
		t.Errorf("surplus is %v, want %v", names, want)
	}
	if left := surplus(pods, 4); left != nil {
		t.Errorf("surplus of as many as may be is %d", len(left))
	}
}
