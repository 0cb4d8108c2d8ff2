package apiserver

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	metav1apply "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingv1apply "k8s.io/client-go/applyconfigurations/networking/v1"
	"k8s.io/client-go/kubernetes"
	schedulingv1 "k8s.io/kubernetes/pkg/apis/scheduling/v1"
	"k8s.io/kubernetes/pkg/controlplane/controller/systemnamespaces"
)

// systemNamespaces exist in every cluster.
var systemNamespaces = []string{metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease, metav1.NamespaceDefault}

func (s *Server) createNamespaces(ctx context.Context) error {
	for _, name := range systemNamespaces {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		_, err := s.client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
		if err := exists(err); err != nil {
			return fmt.Errorf("creating namespace %s: %w", name, err)
		}
	}
	return nil
}

// bootstrap writes what a cluster has from the start. Objects that exist, in a store
// that has been used before, are kept, and completed where upstream does so too.
func (s *Server) bootstrap(ctx context.Context) error {
	if err := bootstrapRBAC(ctx, s.client.RbacV1()); err != nil {
		return err
	}
	for _, class := range schedulingv1.SystemPriorityClasses() {
		_, err := s.client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{})
		if err := exists(err); err != nil {
			return fmt.Errorf("creating PriorityClass %s: %w", class.Name, err)
		}
	}
	if err := createServiceCIDR(ctx, s.client); err != nil {
		return err
	}
	if err := s.addresses.takePorts(ctx, s.client); err != nil {
		return err
	}
	return createKubernetesService(ctx, s.client)
}

// keepSystemNamespaces brings system namespaces back that somebody deletes.
func (s *Server) keepSystemNamespaces() {
	namespaces := s.shared.Core().V1().Namespaces()
	systemnamespaces.NewController(systemNamespaces, s.client, namespaces).Run(s.hooks.Done())
}

// createServiceCIDR creates the range that ClusterIPs come from. Upstream's
// controller would do it, 200 ms later.
func createServiceCIDR(ctx context.Context, client kubernetes.Interface) error {
	cidrs := client.NetworkingV1().ServiceCIDRs()
	_, err := cidrs.Create(ctx, &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"},
		Spec:       networkingv1.ServiceCIDRSpec{CIDRs: []string{serviceCIDR}},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("creating ServiceCIDR kubernetes: %w", err)
	}
	ready := metav1apply.Condition().
		WithType(networkingv1.ServiceCIDRConditionReady).
		WithStatus(metav1.ConditionTrue).
		WithMessage("Kubernetes default Service CIDR is ready").
		WithLastTransitionTime(metav1.Now())
	status := networkingv1apply.ServiceCIDR("kubernetes").WithStatus(networkingv1apply.ServiceCIDRStatus().WithConditions(ready))
	_, err = cidrs.ApplyStatus(ctx, status, metav1.ApplyOptions{FieldManager: "kubernetes-service-cidr-controller", Force: true})
	if err != nil {
		return fmt.Errorf("making ServiceCIDR kubernetes ready: %w", err)
	}
	return nil
}

// createKubernetesService creates the Service that leads to the API server. It has
// no endpoints: an endpoint may not have an address of the loopback interface.
func createKubernetesService(ctx context.Context, client kubernetes.Interface) error {
	singleStack := corev1.IPFamilyPolicySingleStack
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name:      "kubernetes",
			Namespace: metav1.NamespaceDefault,
			Labels:    map[string]string{"component": "apiserver", "provider": "kubernetes"},
		},
		Spec: corev1.ServiceSpec{
			ClusterIP:      kubernetesServiceIP,
			IPFamilyPolicy: &singleStack,
			Ports: []corev1.ServicePort{{
				Name: "https", Protocol: corev1.ProtocolTCP, Port: 443, TargetPort: intstr.FromInt32(6443),
			}},
		},
	}
	// The allocator learns of the default ServiceCIDR through a watch.
	return retry(ctx, "creating Service default/kubernetes", func() error {
		_, err := client.CoreV1().Services(service.Namespace).Create(ctx, service, metav1.CreateOptions{})
		return exists(err)
	})
}

// exists is err, unless that only says that the object exists.
func exists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// retry does what depends on a change that is about to reach an informer.
func retry(ctx context.Context, what string, do func() error) error {
	const pause = time.Millisecond
	for {
		err := do()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, errors.Join(err, ctx.Err()))
		case <-time.After(pause):
		}
	}
}
