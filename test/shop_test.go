package test

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/cache"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/condition"
	"github.com/setpoint-dev/setpoint/configspec"
	"github.com/setpoint-dev/setpoint/owner"
)

// This file is an operator without a CustomResourceDefinition, as a user would have it: see docs/where-to-keep-state.md.

// Shop is what a document says.
type Shop struct {
	Title    string `json:"title"`
	Replicas *int32 `json:"replicas,omitempty"`
}

// Default lets a shop run once.
func (s *Shop) Default() {
	if s.Replicas == nil {
		one := int32(1)
		s.Replicas = &one
	}
}

// Validate says what is wrong with a shop.
func (s *Shop) Validate() error {
	var errs field.ErrorList
	if s.Title == "" {
		errs = append(errs, field.Required(field.NewPath("title"), "every shop has one"))
	}
	if *s.Replicas < 0 || *s.Replicas > 5 {
		errs = append(errs, field.Invalid(field.NewPath("replicas"), *s.Replicas, "choose 0 to 5"))
	}
	return errs.ToAggregate()
}

// newShopOperator needs the rights of examples/configspec/role.yaml, and caches nothing but ConfigMaps with the label.
func newShopOperator(config *rest.Config, status configspec.Place) (*setpoint.Manager, error) {
	m, err := setpoint.NewManager(setpoint.Config{
		REST:         config,
		FieldOwner:   "shop-operator",
		DefaultCache: cache.Options{Namespaces: []string{"shops"}},
		Kinds: map[schema.GroupKind]cache.Options{
			{Kind: "ConfigMap"}: configspec.Cache("example.com/spec", "shops"),
		},
	})
	if err != nil {
		return nil, err
	}
	shops, err := configspec.New(m, "shop", configspec.Options[Shop]{
		Label:    "example.com/spec",
		Status:   status,
		Default:  (*Shop).Default,
		Validate: (*Shop).Validate,
	})
	if err != nil {
		return nil, err
	}
	shops.For().
		Owns(&appsv1.Deployment{}).
		Reconcile(shops.Each(func(ctx context.Context, shop *configspec.Object[Shop]) (setpoint.Result, error) {
			if shop.ConfigMap.DeletionTimestamp != nil {
				return setpoint.Result{}, nil
			}
			deployment := deploymentOfShop(shop)
			if err := owner.SetController(shop.ConfigMap, deployment, m.Client().Scheme()); err != nil {
				return setpoint.Result{}, setpoint.Terminal(err)
			}
			if err := m.Client().Apply(ctx, deployment, client.ForceOwnership); err != nil {
				return setpoint.Result{}, err
			}
			condition.Set(&shop.Status.Conditions, readyOfShop(deployment))
			return setpoint.Result{}, nil
		}))
	return m, nil
}

func deploymentOfShop(shop *configspec.Object[Shop]) *appsv1.Deployment {
	labels := map[string]string{"shop": shop.ConfigMap.Name}
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: shop.ConfigMap.Namespace, Name: shop.ConfigMap.Name},
		Spec: appsv1.DeploymentSpec{
			Replicas: shop.Spec.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "web", Image: "nginx:1.29", Env: []corev1.EnvVar{{Name: "TITLE", Value: shop.Spec.Title}},
				}}},
			},
		},
	}
}

func readyOfShop(d *appsv1.Deployment) metav1.Condition {
	c := metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Starting"}
	if d.Status.ObservedGeneration == d.Generation && d.Status.UpdatedReplicas == *d.Spec.Replicas && d.Status.AvailableReplicas == *d.Spec.Replicas {
		c.Status, c.Reason = metav1.ConditionTrue, "Running"
	}
	c.Message = fmt.Sprintf("Deployment %q is to run %d replicas", d.Name, *d.Spec.Replicas)
	return c
}
