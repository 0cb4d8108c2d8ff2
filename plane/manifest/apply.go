package manifest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Applier applies objects to one cluster.
type Applier struct {
	discovery *discovery.DiscoveryClient
	dynamic   *dynamic.DynamicClient
	manager   string
	// resources of the group versions asked for so far. A version that lacked a kind
	// is asked for again.
	resources map[schema.GroupVersion][]metav1.APIResource
}

// NewApplier makes an Applier that owns what it applies under the name manager.
func NewApplier(config *rest.Config, manager string) (*Applier, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a client to apply manifests with: %w", err)
	}
	discoveryClient, err := discovery.NewDiscoveryClientForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("making a discovery client to apply manifests with: %w", err)
	}
	dynamicClient, err := dynamic.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("making a dynamic client to apply manifests with: %w", err)
	}
	return &Applier{
		discovery: discoveryClient,
		dynamic:   dynamicClient,
		manager:   manager,
		resources: map[schema.GroupVersion][]metav1.APIResource{},
	}, nil
}

// Apply applies the objects, and waits until the kinds that they define are served.
// Objects of a namespaced kind that name no namespace go to "default". It stops at
// the first object that is refused.
func (a *Applier) Apply(ctx context.Context, objects ...*unstructured.Unstructured) error {
	ordered := slices.Clone(objects)
	slices.SortStableFunc(ordered, func(x, y *unstructured.Unstructured) int { return rank(x) - rank(y) })
	var defined []*unstructured.Unstructured
	for _, object := range ordered {
		if !isCRD(object) && len(defined) > 0 {
			if err := a.awaitAll(ctx, defined); err != nil {
				return err
			}
			defined = nil
		}
		if err := a.applyOne(ctx, object); err != nil {
			return err
		}
		if isCRD(object) {
			defined = append(defined, object)
		}
	}
	return a.awaitAll(ctx, defined)
}

// rank puts what others depend on first.
func rank(object *unstructured.Unstructured) int {
	switch {
	case isCRD(object):
		return 0
	case object.GetAPIVersion() == "v1" && object.GetKind() == "Namespace":
		return 1
	default:
		return 2
	}
}

func (a *Applier) applyOne(ctx context.Context, object *unstructured.Unstructured) error {
	resource, err := a.resource(object)
	if err != nil {
		return fmt.Errorf("applying %s: %w", describe(object), err)
	}
	_, err = resource.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: a.manager, Force: true})
	if err != nil {
		return fmt.Errorf("applying %s: %w", describe(object), err)
	}
	return nil
}

// resource is where an object is to be sent.
func (a *Applier) resource(object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	gvk := object.GroupVersionKind()
	found, err := a.lookUp(gvk)
	if err != nil {
		return nil, err
	}
	client := a.dynamic.Resource(gvk.GroupVersion().WithResource(found.Name))
	if !found.Namespaced {
		return client, nil
	}
	namespace := object.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	return client.Namespace(namespace), nil
}

func (a *Applier) lookUp(gvk schema.GroupVersionKind) (metav1.APIResource, error) {
	if found, ok := findKind(a.resources[gvk.GroupVersion()], gvk.Kind); ok {
		return found, nil
	}
	list, err := a.discovery.ServerResourcesForGroupVersion(gvk.GroupVersion().String())
	if err != nil {
		return metav1.APIResource{}, fmt.Errorf("asking which resources %s has: %w", gvk.GroupVersion(), err)
	}
	a.resources[gvk.GroupVersion()] = list.APIResources
	if found, ok := findKind(list.APIResources, gvk.Kind); ok {
		return found, nil
	}
	return metav1.APIResource{}, &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
}

// findKind leaves out subresources, whose names contain a slash.
func findKind(resources []metav1.APIResource, kind string) (metav1.APIResource, bool) {
	i := slices.IndexFunc(resources, func(r metav1.APIResource) bool {
		return r.Kind == kind && !strings.Contains(r.Name, "/")
	})
	if i < 0 {
		return metav1.APIResource{}, false
	}
	return resources[i], true
}

func (a *Applier) awaitAll(ctx context.Context, crds []*unstructured.Unstructured) error {
	var errs []error
	for _, crd := range crds {
		if err := a.awaitServed(ctx, crd); err != nil {
			errs = append(errs, fmt.Errorf("waiting until the kind of %s is served: %w", describe(crd), err))
		}
	}
	return errors.Join(errs...)
}

// describe names an object in errors.
func describe(object *unstructured.Unstructured) string {
	name := object.GetName()
	if object.GetNamespace() != "" {
		name = object.GetNamespace() + "/" + name
	}
	return object.GetKind() + " " + name
}
