package expose

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/setpoint-dev/setpoint/client"
)

// page is how many objects Cleanup reads at once.
const page = 500

// Cleanup removes what the operator made, in all namespaces, from objects whose name contains filter; an empty one means all
// objects. Ingresses and HTTPRoutes are deleted; Services and ConfigMaps get back what they had. It tries everything and
// returns all errors.
//
// The operator must not run meanwhile, since it would make everything again. The field owner does not matter for c, whose
// reads must show managedFields: it must have no cache.
func Cleanup(ctx context.Context, c *client.Client, filter string) error {
	k := &cleaner{client: c, filter: filter}
	return errors.Join(
		k.each(ctx, &networkingv1.IngressList{}, "Ingresses", k.delete),
		k.each(ctx, newRouteList(), "HTTPRoutes", k.delete),
		k.each(ctx, &corev1.ServiceList{}, "Services", k.releaseService),
		k.each(ctx, &corev1.ConfigMapList{}, "ConfigMaps", k.releaseConfigMap),
	)
}

// cleaner removes what the operator made.
type cleaner struct {
	client *client.Client
	filter string
}

func newRouteList() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(routeKind.GroupVersion().WithKind(routeKind.Kind + "List"))
	return list
}

// each calls do with every object of a kind that bears the operator's fields. A kind that is not served has none.
func (k *cleaner) each(ctx context.Context, list client.ObjectList, what string, do func(context.Context, client.Object, []metav1.ManagedFieldsEntry) error) error {
	var errs []error
	next := client.Continue("")
	for {
		err := k.client.List(ctx, list, client.Limit(page), next)
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("listing %s: %w", what, err)
		}
		err = meta.EachListItem(list, func(item runtime.Object) error {
			obj := item.(client.Object)
			own := slices.DeleteFunc(obj.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Manager != FieldOwner })
			if strings.Contains(obj.GetName(), k.filter) && len(own) > 0 {
				if err := client.IgnoreNotFound(do(ctx, obj, own)); err != nil {
					errs = append(errs, fmt.Errorf("%s %s: %w", what, client.KeyOf(obj), err))
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		if next = client.Continue(list.GetContinue()); next == "" {
			return errors.Join(errs...)
		}
	}
}

// delete deletes an Ingress or HTTPRoute that the operator made.
func (k *cleaner) delete(ctx context.Context, obj client.Object, own []metav1.ManagedFieldsEntry) error {
	if !isMine(obj, own) {
		return nil
	}
	return k.client.Delete(ctx, obj)
}

func (k *cleaner) releaseService(ctx context.Context, obj client.Object, own []metav1.ManagedFieldsEntry) error {
	return writeService(ctx, k.client, FieldOwner, obj.(*corev1.Service), plan{}, own)
}

func (k *cleaner) releaseConfigMap(ctx context.Context, obj client.Object, own []metav1.ManagedFieldsEntry) error {
	cm := obj.(*corev1.ConfigMap)
	in := inject(cm, nil, own)
	return writeConfigMap(ctx, k.client, FieldOwner, cm, in, in.restore, own)
}
