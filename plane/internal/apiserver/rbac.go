package apiserver

import (
	"context"
	"fmt"
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	rbacv1client "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/component-helpers/auth/rbac/reconciliation"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

// bootstrapRBAC creates the roles and bindings that every cluster has. What exists
// already gets what it lacks of them, unless it is annotated against that.
func bootstrapRBAC(ctx context.Context, client rbacv1client.RbacV1Interface) error {
	for _, role := range slices.Concat(bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles()) {
		_, err := client.ClusterRoles().Create(ctx, &role, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			_, err = (&reconciliation.ReconcileRoleOptions{
				Role:    reconciliation.ClusterRoleRuleOwner{ClusterRole: &role},
				Client:  reconciliation.ClusterRoleModifier{Client: client.ClusterRoles()},
				Confirm: true,
			}).Run()
		}
		if err != nil {
			return fmt.Errorf("bootstrapping ClusterRole %s: %w", role.Name, err)
		}
	}
	for _, binding := range slices.Concat(bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()) {
		_, err := client.ClusterRoleBindings().Create(ctx, &binding, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			_, err = (&reconciliation.ReconcileRoleBindingOptions{
				RoleBinding: reconciliation.ClusterRoleBindingAdapter{ClusterRoleBinding: &binding},
				Client:      reconciliation.ClusterRoleBindingClientAdapter{Client: client.ClusterRoleBindings()},
				Confirm:     true,
			}).Run()
		}
		if err != nil {
			return fmt.Errorf("bootstrapping ClusterRoleBinding %s: %w", binding.Name, err)
		}
	}
	return bootstrapNamespacedRBAC(ctx, client)
}

func bootstrapNamespacedRBAC(ctx context.Context, client rbacv1client.RbacV1Interface) error {
	roles := bootstrappolicy.NamespaceRoles()
	for _, namespace := range slices.Sorted(maps.Keys(roles)) {
		for _, role := range roles[namespace] {
			if err := bootstrapRole(ctx, client, namespace, &role); err != nil {
				return fmt.Errorf("bootstrapping Role %s/%s: %w", namespace, role.Name, err)
			}
		}
	}
	bindings := bootstrappolicy.NamespaceRoleBindings()
	for _, namespace := range slices.Sorted(maps.Keys(bindings)) {
		for _, binding := range bindings[namespace] {
			if err := bootstrapRoleBinding(ctx, client, namespace, &binding); err != nil {
				return fmt.Errorf("bootstrapping RoleBinding %s/%s: %w", namespace, binding.Name, err)
			}
		}
	}
	return nil
}

func bootstrapRole(ctx context.Context, client rbacv1client.RbacV1Interface, namespace string, role *rbacv1.Role) error {
	_, err := client.Roles(namespace).Create(ctx, role, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = (&reconciliation.ReconcileRoleOptions{
			Role:    reconciliation.RoleRuleOwner{Role: role},
			Client:  reconciliation.RoleModifier{Client: client},
			Confirm: true,
		}).Run()
	}
	return err
}

func bootstrapRoleBinding(ctx context.Context, client rbacv1client.RbacV1Interface, namespace string, binding *rbacv1.RoleBinding) error {
	_, err := client.RoleBindings(namespace).Create(ctx, binding, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = (&reconciliation.ReconcileRoleBindingOptions{
			RoleBinding: reconciliation.RoleBindingAdapter{RoleBinding: binding},
			Client:      reconciliation.RoleBindingClientAdapter{Client: client},
			Confirm:     true,
		}).Run()
	}
	return err
}
