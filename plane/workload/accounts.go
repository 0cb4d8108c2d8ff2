package workload

import (
	"context"
	"fmt"

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/certificates/rootcacertpublisher"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	serviceaccountcontroller "k8s.io/kubernetes/pkg/controller/serviceaccount"
	"k8s.io/kubernetes/pkg/serviceaccount"
)

func buildServiceAccount(ctx context.Context, e *environment) ([]loop, error) {
	client, err := e.client("service-account-controller")
	if err != nil {
		return nil, err
	}
	core := e.informers.Core().V1()
	c, err := serviceaccountcontroller.NewServiceAccountsController(klog.FromContext(ctx), core.ServiceAccounts(), core.Namespaces(), client,
		serviceaccountcontroller.DefaultServiceAccountsControllerOptions())
	if err != nil {
		return nil, err
	}
	return workersLoop(c.Run), nil
}

func buildServiceAccountToken(ctx context.Context, e *environment) ([]loop, error) {
	if e.config.TokenKey == nil {
		return nil, nil
	}
	client, err := e.client("tokens-controller")
	if err != nil {
		return nil, err
	}
	generator, err := serviceaccount.JWTTokenGenerator(serviceaccount.LegacyIssuer, e.config.TokenKey)
	if err != nil {
		return nil, fmt.Errorf("signing with Config.TokenKey: %w", err)
	}
	core := e.informers.Core().V1()
	c, err := serviceaccountcontroller.NewTokensController(klog.FromContext(ctx), core.ServiceAccounts(), core.Secrets(), client,
		serviceaccountcontroller.TokensControllerOptions{TokenGenerator: generator, RootCA: e.rootCA()})
	if err != nil {
		return nil, err
	}
	return workersLoop(c.Run), nil
}

func buildRootCAPublisher(_ context.Context, e *environment) ([]loop, error) {
	client, err := e.client("root-ca-cert-publisher")
	if err != nil {
		return nil, err
	}
	core := e.informers.Core().V1()
	c, err := rootcacertpublisher.NewPublisher(core.ConfigMaps(), core.Namespaces(), client, e.rootCA())
	if err != nil {
		return nil, err
	}
	return workersLoop(c.Run), nil
}

func (e *environment) rootCA() []byte {
	if len(e.config.RootCA) > 0 {
		return e.config.RootCA
	}
	return e.config.REST.CAData
}

func buildClusterRoleAggregation(_ context.Context, e *environment) ([]loop, error) {
	client, err := e.client("clusterrole-aggregation-controller")
	if err != nil {
		return nil, err
	}
	c := clusterroleaggregation.NewClusterRoleAggregation(e.informers.Rbac().V1().ClusterRoles(), client.RbacV1())
	return workersLoop(c.Run), nil
}
