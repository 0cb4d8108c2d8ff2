package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	leaseDuration = 40 * time.Second
	// heartbeat renews Leases; every statusBeats-th one also the status.
	heartbeat   = 10 * time.Second
	statusBeats = 30
	// retryBeat is the pause after a beat that failed: at the start, the namespace
	// of the Leases may not be there yet.
	retryBeat = time.Second
)

// registrar keeps the Node objects and their Leases.
type registrar struct {
	client  kubernetes.Interface
	config  Config
	version string // the kubelet's: the server's
	hosts   map[string]string
	logger  *slog.Logger
	leases  map[string]*coordinationv1.Lease
}

// register creates the nodes, or makes those that are there ready again.
func (r *registrar) register(ctx context.Context) error {
	names := slices.Sorted(maps.Keys(r.hosts))
	errs := make([]error, len(names))
	var group sync.WaitGroup
	free := make(chan struct{}, workers)
	for i, name := range names {
		group.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			errs[i] = r.registerOne(ctx, name)
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

func (r *registrar) registerOne(ctx context.Context, name string) error {
	nodes, wanted := r.client.CoreV1().Nodes(), r.nodeOf(name, time.Now())
	node, err := nodes.Create(ctx, wanted, metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		if node, err = nodes.Get(ctx, name, metav1.GetOptions{}); err == nil {
			node.Status = wanted.Status
			_, err = nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{})
		}
	case err == nil && !equality.Semantic.DeepEqual(node.Spec.Taints, wanted.Spec.Taints):
		// Admission taints every new node as not ready, and the controller that takes
		// the taint away is not here.
		node.Spec.Taints = wanted.Spec.Taints
		_, err = nodes.Update(ctx, node, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("node: registering node %s: %w", name, err)
	}
	return nil
}

// nodeOf is the Node as a kubelet registers it.
func (r *registrar) nodeOf(name string, now time.Time) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname:   name,
			corev1.LabelOSStable:   "linux",
			corev1.LabelArchStable: runtime.GOARCH,
		}},
		Spec: corev1.NodeSpec{Taints: r.config.Taints},
		Status: corev1.NodeStatus{
			Capacity: corev1.ResourceList{
				corev1.ResourceCPU:              resource.MustParse("1000"),
				corev1.ResourceMemory:           resource.MustParse("4Ti"),
				corev1.ResourceEphemeralStorage: resource.MustParse("16Ti"),
				corev1.ResourcePods:             resource.MustParse("10000"),
			},
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: r.hosts[name]},
				{Type: corev1.NodeHostName, Address: name},
			},
			NodeInfo: corev1.NodeSystemInfo{
				KubeletVersion: r.version, OperatingSystem: "linux", Architecture: runtime.GOARCH,
				OSImage: "Setpoint fake node", KernelVersion: "none", ContainerRuntimeVersion: "setpoint://fake",
				MachineID: hash(name)[:32], SystemUUID: hash(name)[:32], BootID: hash(name)[:32],
			},
		},
	}
	maps.Copy(node.Labels, r.config.Labels)
	maps.Copy(node.Status.Capacity, r.config.Capacity)
	node.Status.Allocatable = node.Status.Capacity
	for _, c := range []struct {
		kind            corev1.NodeConditionType
		status          corev1.ConditionStatus
		reason, message string
	}{
		{corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"},
		{corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"},
		{corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID", "kubelet has sufficient PID available"},
		{corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status"},
	} {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
			Type: c.kind, Status: c.status, Reason: c.reason, Message: c.message,
			LastHeartbeatTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now),
		})
	}
	return node
}

// run renews what says that the nodes are alive, until ctx ends.
func (r *registrar) run(ctx context.Context) {
	for beat := 0; ; beat++ {
		var errs []error
		for _, name := range slices.Sorted(maps.Keys(r.hosts)) {
			errs = append(errs, r.renewLease(ctx, name, time.Now()))
			if beat > 0 && beat%statusBeats == 0 {
				errs = append(errs, r.renewStatus(ctx, name, time.Now()))
			}
		}
		pause := heartbeat
		if err := errors.Join(errs...); err != nil && ctx.Err() == nil {
			r.logger.Debug("Heartbeat failed, trying again", "error", err)
			pause = retryBeat
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

func (r *registrar) renewLease(ctx context.Context, name string, now time.Time) error {
	leases, lease := r.client.CoordinationV1().Leases(corev1.NamespaceNodeLease), r.leases[name]
	if lease == nil {
		var err error
		if lease, err = leases.Get(ctx, name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			return r.createLease(ctx, name, now)
		} else if err != nil {
			return fmt.Errorf("node: reading the Lease of node %s: %w", name, err)
		}
	}
	renewed := metav1.NewMicroTime(now)
	lease.Spec.RenewTime = &renewed
	lease, err := leases.Update(ctx, lease, metav1.UpdateOptions{})
	if err != nil {
		delete(r.leases, name)
		return fmt.Errorf("node: renewing the Lease of node %s: %w", name, err)
	}
	r.leases[name] = lease
	return nil
}

// createLease makes the Lease a dependent of the Node, which may have been deleted
// by a user: then there is nothing to say about it.
func (r *registrar) createLease(ctx context.Context, name string, now time.Time) error {
	node, err := r.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("node: reading node %s: %w", name, err)
	}
	renewed := metav1.NewMicroTime(now)
	lease, err := r.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name:            name,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: name, UID: node.UID}},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: new(int32(leaseDuration / time.Second)), RenewTime: &renewed},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("node: creating the Lease of node %s: %w", name, err)
	}
	r.leases[name] = lease
	return nil
}

// renewStatus moves the heartbeat times of a Node that still is there.
func (r *registrar) renewStatus(ctx context.Context, name string, now time.Time) error {
	node, err := r.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		for i := range node.Status.Conditions {
			node.Status.Conditions[i].LastHeartbeatTime = metav1.NewTime(now)
		}
		_, err = r.client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("node: renewing the status of node %s: %w", name, err)
	}
	return nil
}
