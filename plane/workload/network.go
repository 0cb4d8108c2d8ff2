package workload

import (
	"context"

	"k8s.io/kubernetes/pkg/controller/endpoint"
	"k8s.io/kubernetes/pkg/controller/endpointslice"
	"k8s.io/kubernetes/pkg/controller/endpointslicemirroring"
	"k8s.io/kubernetes/pkg/controller/servicecidrs"
)

const (
	// endpointsPerSlice and mirroredPerSubset are the limits of a default cluster.
	endpointsPerSlice = 100
	mirroredPerSubset = 1000
)

func buildEndpoints(ctx context.Context, e *environment) ([]loop, error) {
	client, err := e.client("endpoint-controller")
	if err != nil {
		return nil, err
	}
	core := e.informers.Core().V1()
	c := endpoint.NewEndpointController(ctx, core.Pods(), core.Services(), core.Endpoints(), client, 0)
	return workersLoop(c.Run), nil
}

func buildEndpointSlice(ctx context.Context, e *environment) ([]loop, error) {
	client, err := e.client("endpointslice-controller")
	if err != nil {
		return nil, err
	}
	core := e.informers.Core().V1()
	c := endpointslice.NewController(ctx, core.Pods(), core.Services(), core.Nodes(),
		e.informers.Discovery().V1().EndpointSlices(), endpointsPerSlice, client, 0)
	return workersLoop(c.Run), nil
}

func buildEndpointSliceMirroring(ctx context.Context, e *environment) ([]loop, error) {
	client, err := e.client("endpointslicemirroring-controller")
	if err != nil {
		return nil, err
	}
	core := e.informers.Core().V1()
	c := endpointslicemirroring.NewController(ctx, core.Endpoints(),
		e.informers.Discovery().V1().EndpointSlices(), core.Services(), mirroredPerSubset, client, 0)
	return workersLoop(c.Run), nil
}

func buildServiceCIDR(ctx context.Context, e *environment) ([]loop, error) {
	client, err := e.client("service-cidrs-controller")
	if err != nil {
		return nil, err
	}
	networking := e.informers.Networking().V1()
	c := servicecidrs.NewController(ctx, networking.ServiceCIDRs(), networking.IPAddresses(), client)
	return workersLoop(c.Run), nil
}
