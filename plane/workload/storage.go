package workload

import (
	"context"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/volume/ephemeral"
	"k8s.io/kubernetes/pkg/controller/volume/persistentvolume"
	"k8s.io/kubernetes/pkg/controller/volume/pvcprotection"
	"k8s.io/kubernetes/pkg/controller/volume/pvprotection"
)

// volumeResync is how often all volumes and claims are looked at again.
const volumeResync = 15 * time.Second

func buildPersistentVolumeBinder(ctx context.Context, e *environment) ([]loop, error) {
	client, err := e.client("persistent-volume-binder")
	if err != nil {
		return nil, err
	}
	core := e.informers.Core().V1()
	c, err := persistentvolume.NewController(ctx, persistentvolume.ControllerParameters{
		KubeClient:                client,
		SyncPeriod:                volumeResync,
		VolumeInformer:            core.PersistentVolumes(),
		ClaimInformer:             core.PersistentVolumeClaims(),
		ClassInformer:             e.informers.Storage().V1().StorageClasses(),
		PodInformer:               core.Pods(),
		NodeInformer:              core.Nodes(),
		EnableDynamicProvisioning: true,
	})
	if err != nil {
		return nil, err
	}
	return []loop{c.Run}, nil
}

func buildPersistentVolumeClaimProtection(ctx context.Context, e *environment) ([]loop, error) {
	client, err := e.client("pvc-protection-controller")
	if err != nil {
		return nil, err
	}
	core := e.informers.Core().V1()
	c, err := pvcprotection.NewPVCProtectionController(klog.FromContext(ctx), core.PersistentVolumeClaims(), core.Pods(), client)
	if err != nil {
		return nil, err
	}
	return workersLoop(c.Run), nil
}

func buildPersistentVolumeProtection(ctx context.Context, e *environment) ([]loop, error) {
	client, err := e.client("pv-protection-controller")
	if err != nil {
		return nil, err
	}
	c, err := pvprotection.NewPVProtectionController(klog.FromContext(ctx), e.informers.Core().V1().PersistentVolumes(), client)
	if err != nil {
		return nil, err
	}
	return workersLoop(c.Run), nil
}

func buildEphemeralVolume(ctx context.Context, e *environment) ([]loop, error) {
	client, err := e.client("ephemeral-volume-controller")
	if err != nil {
		return nil, err
	}
	core := e.informers.Core().V1()
	c, err := ephemeral.NewController(ctx, client, core.Pods(), core.PersistentVolumeClaims())
	if err != nil {
		return nil, err
	}
	return []loop{func(ctx context.Context) { c.Run(ctx, workers) }}, nil
}
