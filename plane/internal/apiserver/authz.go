package apiserver

import (
	"fmt"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/union"
	"k8s.io/client-go/informers"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"
)

// authorization is RBAC, and everything for system:masters.
func authorization(shared informers.SharedInformerFactory) (authorizer.Authorizer, authorizer.RuleResolver, error) {
	rules := shared.Rbac().V1()
	byRole := rbac.New(
		&rbac.RoleGetter{Lister: rules.Roles().Lister()},
		&rbac.RoleBindingLister{Lister: rules.RoleBindings().Lister()},
		&rbac.ClusterRoleGetter{Lister: rules.ClusterRoles().Lister()},
		&rbac.ClusterRoleBindingLister{Lister: rules.ClusterRoleBindings().Lister()},
	)
	all, err := union.New(
		union.NamedAuthorizer{AuthorizerName: "masters", Authorizer: authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)},
		union.NamedAuthorizer{AuthorizerName: "RBAC", Authorizer: byRole},
	)
	if err != nil {
		return nil, nil, fmt.Errorf("setting up authorization: %w", err)
	}
	return all, union.NewRuleResolvers(byRole), nil
}
