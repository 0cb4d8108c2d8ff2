package plane_test

import (
	"context"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/plane/planetest"
)

// whoami asks the server.
func whoami(t *testing.T, config *rest.Config) string {
	t.Helper()
	review, err := kubernetes.NewForConfigOrDie(config).AuthenticationV1().SelfSubjectReviews().
		Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status.UserInfo.Username
}

func TestIdentities(t *testing.T) {
	a := newAPI(t)
	if got := whoami(t, a.plane.RESTConfig()); got != "setpoint-admin" {
		t.Errorf("in-process: %s", got)
	}
	if got := whoami(t, overTLS(t, a.plane)); got != "setpoint-admin" {
		t.Errorf("by the kubeconfig's certificate: %s", got)
	}
	impersonating := a.plane.RESTConfig()
	impersonating.Impersonate = rest.ImpersonationConfig{UserName: "jane", Groups: []string{"system:authenticated"}}
	if got := whoami(t, impersonating); got != "jane" {
		t.Errorf("impersonating: %s", got)
	}

	nobody := overTLS(t, a.plane)
	nobody.CertData, nobody.KeyData = nil, nil
	_, err := kubernetes.NewForConfigOrDie(nobody).CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsUnauthorized(err) {
		t.Errorf("without credentials: got %v, want Unauthorized", err)
	}
	liar := a.plane.RESTConfig()
	liar.BearerToken = "made-up"
	_, err = kubernetes.NewForConfigOrDie(liar).CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsUnauthorized(err) {
		t.Errorf("with a made-up token, in-process: got %v, want Unauthorized", err)
	}
}

func TestServiceAccountTokens(t *testing.T) {
	a := newAPI(t)
	accounts := a.client.CoreV1().ServiceAccounts(a.namespace)
	if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := accounts.CreateToken(t.Context(), "robot", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	name := "system:serviceaccount:" + a.namespace + ":robot"
	for transport, config := range map[string]*rest.Config{"in-process": a.plane.RESTConfig(), "TLS": overTLS(t, a.plane)} {
		config.CertData, config.KeyData = nil, nil
		config.BearerToken = token.Status.Token
		if got := whoami(t, config); got != name {
			t.Errorf("%s: got %s, want %s", transport, got, name)
		}
	}
	review, err := a.client.AuthenticationV1().TokenReviews().Create(t.Context(),
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token.Status.Token}}, metav1.CreateOptions{})
	if err != nil || !review.Status.Authenticated || review.Status.User.Username != name {
		t.Errorf("the review says %+v, %v", review.Status, err)
	}
}

func TestTokenDiesWithWhatItIsBoundTo(t *testing.T) {
	a := newAPI(t)
	secrets := a.client.CoreV1().Secrets(a.namespace)
	secret, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bound"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	account, err := a.client.CoreV1().ServiceAccounts(a.namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	token, err := a.client.CoreV1().ServiceAccounts(a.namespace).CreateToken(t.Context(), account.Name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Secret", Name: secret.Name, UID: secret.UID}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := secrets.Delete(t.Context(), secret.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	planetest.WaitGone(t, a.plane, secret)
	config := a.plane.RESTConfig()
	config.BearerToken = token.Status.Token
	_, err = kubernetes.NewForConfigOrDie(config).CoreV1().Pods(a.namespace).List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsUnauthorized(err) {
		t.Errorf("got %v, want Unauthorized", err)
	}
}

func TestRBAC(t *testing.T) {
	a := newAPI(t)
	config := a.plane.RESTConfig()
	config.Impersonate = rest.ImpersonationConfig{UserName: "reader", Groups: []string{"system:authenticated"}}
	reader := kubernetes.NewForConfigOrDie(config)
	read := func() error {
		_, err := reader.CoreV1().ConfigMaps(a.namespace).List(t.Context(), metav1.ListOptions{})
		return err
	}
	if err := read(); !apierrors.IsForbidden(err) {
		t.Errorf("without a role: got %v, want Forbidden", err)
	}
	_, err := a.client.RbacV1().RoleBindings(a.namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "reader"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// Authorization learns of bindings through a watch, so the answer is asked for
	// until it changes.
	for !mayList(t, reader, a.namespace) {
		if t.Context().Err() != nil {
			t.Fatal("the binding has no effect")
		}
	}
	if err := read(); err != nil {
		t.Errorf("with the role view: %v", err)
	}
	if _, err := reader.CoreV1().ConfigMaps(a.namespace).Create(t.Context(), a.configMap("x", nil), metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the role view may create: %v", err)
	}
}

func mayList(t *testing.T, client kubernetes.Interface, namespace string) bool {
	t.Helper()
	review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: "list", Resource: "configmaps",
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}

func TestBootstrapRoles(t *testing.T) {
	a := newAPI(t)
	for _, name := range []string{"admin", "edit", "view", "cluster-admin", "system:controller:deployment-controller"} {
		role, err := a.client.RbacV1().ClusterRoles().Get(context.Background(), name, metav1.GetOptions{})
		if err != nil {
			t.Error(err)
			continue
		}
		if len(role.Rules) == 0 {
			t.Errorf("ClusterRole %s has no rules", name)
		}
	}
}
