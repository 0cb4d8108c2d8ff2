package apiserver

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/kubeapiserver/options"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
	"k8s.io/kubernetes/pkg/registry/core/service/portallocator"
)

// serviceCIDR is where ClusterIPs come from; the first address is that of the
// Service "kubernetes".
const (
	serviceCIDR         = "10.96.0.0/16"
	kubernetesServiceIP = "10.96.0.1"
)

// serviceAddresses hands out the ClusterIPs and node ports of Services.
//
// ClusterIPs are upstream's: IPAddress objects within the ServiceCIDR objects, so
// whoever adds a ServiceCIDR adds addresses. Node ports have no API; upstream keeps
// them as a bitmap in etcd. Here the bitmap is in memory, and rebuilt from the
// Services at start.
type serviceAddresses struct {
	// byFamily is what the registry of Services allocates from. It knows upstream's
	// allocator by its type, so nothing can stand before it; the map is empty until
	// start.
	byFamily map[api.IPFamily]ipallocator.Interface
	ports    *portallocator.PortAllocator
}

func newServiceAddresses() (*serviceAddresses, error) {
	ports, err := portallocator.NewInMemory(options.DefaultServiceNodePortRange)
	if err != nil {
		return nil, fmt.Errorf("making the allocator of node ports: %w", err)
	}
	return &serviceAddresses{byFamily: map[api.IPFamily]ipallocator.Interface{}, ports: ports}, nil
}

// start needs synced informers: upstream's allocator looks for them at once and
// then only every 100 ms.
func (a *serviceAddresses) start(client kubernetes.Interface, shared informers.SharedInformerFactory) error {
	network := shared.Networking().V1()
	ips, err := ipallocator.NewMetaAllocator(client.NetworkingV1(), network.ServiceCIDRs(), network.IPAddresses(), false, nil)
	if err != nil {
		return fmt.Errorf("making the allocator of ClusterIPs: %w", err)
	}
	a.byFamily[api.IPv4Protocol] = ips
	return nil
}

func (a *serviceAddresses) stop() {
	for _, ips := range a.byFamily {
		ips.Destroy()
	}
	a.ports.Destroy()
}

// takePorts marks the node ports that existing Services hold.
func (a *serviceAddresses) takePorts(ctx context.Context, client kubernetes.Interface) error {
	services, err := client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing Services for the node ports they hold: %w", err)
	}
	for _, service := range services.Items {
		held := map[int]bool{} // one port may serve several protocols of a Service
		for _, port := range service.Spec.Ports {
			held[int(port.NodePort)] = true
		}
		held[int(service.Spec.HealthCheckNodePort)] = true
		delete(held, 0)
		for port := range held {
			if err := a.ports.Allocate(port); err != nil && !errors.Is(err, portallocator.ErrAllocated) {
				return fmt.Errorf("taking node port %d of Service %s/%s: %w", port, service.Namespace, service.Name, err)
			}
		}
	}
	return nil
}
