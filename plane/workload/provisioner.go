package workload

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"
)

const (
	// Provisioner is the name under which StorageClasses ask for volumes that
	// simply exist.
	Provisioner = "volumes.setpoint.dev"
	// DefaultStorageClass is the class of claims that name none.
	DefaultStorageClass = "standard"
)

// provisioner creates the volumes that claims of its classes wait for, and
// deletes those that are released. It is an external provisioner as the binder
// knows them: the binder marks a claim with the provisioner's name, and binds the
// volume that appears for it.
type provisioner struct {
	client  kubernetes.Interface
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	classes storagelisters.StorageClassLister
	queue   workqueue.TypedRateLimitingInterface[cache.ObjectName] // of claims, and of volumes, which have no namespace
}

func buildPersistentVolumeProvisioner(_ context.Context, e *environment) ([]loop, error) {
	client, err := e.client("persistent-volume-provisioner")
	if err != nil {
		return nil, err
	}
	core, classes := e.informers.Core().V1(), e.informers.Storage().V1().StorageClasses()
	p := &provisioner{
		client:  client,
		claims:  core.PersistentVolumeClaims().Lister(),
		volumes: core.PersistentVolumes().Lister(),
		classes: classes.Lister(),
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName](),
			workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{Name: "provisioner"}),
	}
	enqueue := cache.ResourceEventHandlerFuncs{
		AddFunc:    p.enqueue,
		UpdateFunc: func(_, object any) { p.enqueue(object) },
	}
	_, err1 := core.PersistentVolumeClaims().Informer().AddEventHandler(enqueue)
	_, err2 := core.PersistentVolumes().Informer().AddEventHandler(enqueue)
	classes.Informer()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	return []loop{p.run}, nil
}

func (p *provisioner) enqueue(object any) {
	switch o := object.(type) {
	case *corev1.PersistentVolumeClaim:
		if wantsVolume(o) {
			p.queue.Add(cache.ObjectName{Namespace: o.Namespace, Name: o.Name})
		}
	case *corev1.PersistentVolume:
		if isReleased(o) {
			p.queue.Add(cache.ObjectName{Name: o.Name})
		}
	}
}

func (p *provisioner) run(ctx context.Context) {
	p.createDefaultClass(ctx)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() { p.work(ctx) })
	}
	<-ctx.Done()
	p.queue.ShutDown()
	group.Wait()
}

func (p *provisioner) work(ctx context.Context) {
	for {
		key, shutdown := p.queue.Get()
		if shutdown {
			return
		}
		if err := p.sync(ctx, key); err != nil {
			klog.FromContext(ctx).Error(err, "Trying again")
			p.queue.AddRateLimited(key)
		} else {
			p.queue.Forget(key)
		}
		p.queue.Done(key)
	}
}

// createDefaultClass creates the default class unless a class of that name is
// there: one that a user has changed stays as it is.
func (p *provisioner) createDefaultClass(ctx context.Context) {
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{
			Name:        DefaultStorageClass,
			Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"},
		},
		Provisioner: Provisioner,
	}
	_, err := p.client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "There is no default StorageClass", "storageClass", DefaultStorageClass)
	}
}

func (p *provisioner) sync(ctx context.Context, key cache.ObjectName) error {
	if key.Namespace == "" {
		return p.reclaim(ctx, key.Name)
	}
	claim, err := p.claims.PersistentVolumeClaims(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) || err == nil && !wantsVolume(claim) {
		return nil
	}
	if err != nil {
		return err
	}
	className := storagehelpers.GetPersistentVolumeClaimClass(claim)
	class, err := p.classes.Get(className)
	if err != nil {
		return fmt.Errorf("workload: reading StorageClass %s for PersistentVolumeClaim %s: %w", className, key, err)
	}
	_, err = p.client.CoreV1().PersistentVolumes().Create(ctx, volumeFor(claim, class), metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("workload: creating the PersistentVolume of PersistentVolumeClaim %s: %w", key, err)
	}
	return nil
}

func (p *provisioner) reclaim(ctx context.Context, name string) error {
	volume, err := p.volumes.Get(name)
	if apierrors.IsNotFound(err) || err == nil && !isReleased(volume) {
		return nil
	}
	if err != nil {
		return err
	}
	err = p.client.CoreV1().PersistentVolumes().Delete(ctx, name, *metav1.NewPreconditionDeleteOptions(string(volume.UID)))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("workload: deleting released PersistentVolume %s: %w", name, err)
	}
	return nil
}

// wantsVolume tells whether the binder waits for us to provide for the claim.
func wantsVolume(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Annotations[storagehelpers.AnnStorageProvisioner] == Provisioner &&
		claim.Spec.VolumeName == "" && claim.DeletionTimestamp == nil
}

// isReleased tells whether the volume is one of ours whose claim is gone and that
// nobody wants to keep.
func isReleased(volume *corev1.PersistentVolume) bool {
	return volume.Annotations[storagehelpers.AnnDynamicallyProvisioned] == Provisioner &&
		volume.Status.Phase == corev1.VolumeReleased &&
		volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete &&
		volume.DeletionTimestamp == nil
}

// volumeFor is the volume of exactly this claim: as large as asked, reserved by UID.
func volumeFor(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) *corev1.PersistentVolume {
	policy := corev1.PersistentVolumeReclaimDelete
	if class.ReclaimPolicy != nil {
		policy = *class.ReclaimPolicy
	}
	name := "pvc-" + string(claim.UID)
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{storagehelpers.AnnDynamicallyProvisioned: Provisioner},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			AccessModes:                   claim.Spec.AccessModes,
			VolumeMode:                    claim.Spec.VolumeMode,
			MountOptions:                  class.MountOptions,
			StorageClassName:              class.Name,
			PersistentVolumeReclaimPolicy: policy,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: Provisioner, VolumeHandle: name},
			},
		},
	}
}
