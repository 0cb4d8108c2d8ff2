package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// fieldManager owns the fields of what `up` applies.
const fieldManager = "setpoint-up"

// servedPause is the time between two looks at whether a new kind is served: the server offers nothing to wait for.
const servedPause = 5 * time.Millisecond

var (
	crdKind       = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
	namespaceKind = schema.GroupKind{Kind: "Namespace"}
)

// applier applies manifests to one server.
type applier struct {
	objects   dynamic.Interface
	discovery *discovery.DiscoveryClient
	cached    discovery.CachedDiscoveryInterface
	mapper    *restmapper.DeferredDiscoveryRESTMapper
}

func newApplier(config *rest.Config, client *http.Client) (*applier, error) {
	objects, err := dynamic.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, err
	}
	found, err := discovery.NewDiscoveryClientForConfigAndClient(config, client)
	if err != nil {
		return nil, err
	}
	cached := memory.NewMemCacheClient(found)
	return &applier{objects, found, cached, restmapper.NewDeferredDiscoveryRESTMapper(cached)}, nil
}

// apply applies all manifests in the order that applyOrder gives them, and calls applied with what the server made of
// each, and whether somebody reports on objects of its kind. It waits until the kinds of all CustomResourceDefinitions are served before it goes on to other objects.
func (a *applier) apply(ctx context.Context, all []manifest, applied func(o *unstructured.Unstructured, reported bool)) error {
	applyOrder(all)
	var definitions []*unstructured.Unstructured
	for _, m := range all {
		if m.object.GroupVersionKind().GroupKind() != crdKind && definitions != nil {
			if err := a.waitServed(ctx, definitions); err != nil {
				return err
			}
			definitions = nil
		}
		stored, reported, err := a.applyOne(ctx, m)
		if err != nil {
			return err
		}
		if stored.GroupVersionKind().GroupKind() == crdKind {
			definitions = append(definitions, stored)
		}
		applied(stored, reported)
	}
	return a.waitServed(ctx, definitions)
}

// applyOne applies one manifest server-side. It returns what is stored, and whether somebody reports on objects of its
// kind: whether it is a custom kind with a status.
func (a *applier) applyOne(ctx context.Context, m manifest) (stored *unstructured.Unstructured, reported bool, err error) {
	o := m.object
	mapping, err := a.mapper.RESTMapping(o.GroupVersionKind().GroupKind(), o.GroupVersionKind().Version)
	if meta.IsNoMatchError(err) {
		return nil, false, fmt.Errorf("%s: the server knows no %s of %s: apply its CustomResourceDefinition, or add its operator to --operators",
			m.source, o.GetKind(), o.GetAPIVersion())
	}
	if err != nil {
		return nil, false, fmt.Errorf("%s: finding the resource of %s: %w", m.source, name(o, o.GetKind()), err)
	}
	var resource dynamic.ResourceInterface = a.objects.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		if o.GetNamespace() == "" {
			o.SetNamespace(metav1.NamespaceDefault)
		}
		resource = a.objects.Resource(mapping.Resource).Namespace(o.GetNamespace())
	}
	stored, err = resource.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	if err != nil {
		return nil, false, fmt.Errorf("%s: applying %s: %w", m.source, name(o, o.GetKind()), err)
	}
	reported, err = a.reported(mapping.Resource)
	return stored, reported, err
}

// reported tells whether a resource is a custom one with a status.
func (a *applier) reported(resource schema.GroupVersionResource) (bool, error) {
	if !strings.Contains(resource.Group, ".") || strings.HasSuffix(resource.Group, ".k8s.io") {
		return false, nil
	}
	list, err := a.cached.ServerResourcesForGroupVersion(resource.GroupVersion().String())
	if err != nil {
		return false, fmt.Errorf("looking for the subresources of %s: %w", resource.GroupResource(), err)
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == resource.Resource+"/status" }), nil
}

// waitServed waits until the kinds of CustomResourceDefinitions can be used by every client: established, in discovery,
// and in OpenAPI.
func (a *applier) waitServed(ctx context.Context, definitions []*unstructured.Unstructured) error {
	for _, d := range definitions {
		if err := a.waitEstablished(ctx, d); err != nil {
			return fmt.Errorf("waiting for %s to be established: %w", name(d, d.GetKind()), err)
		}
	}
	for _, d := range definitions {
		for _, gv := range servedVersions(d) {
			if err := a.waitDiscovered(ctx, gv); err != nil {
				return fmt.Errorf("waiting for %s to be served as %s: %w", name(d, d.GetKind()), gv, err)
			}
		}
	}
	if len(definitions) > 0 {
		a.mapper.Reset()
	}
	return nil
}

// waitEstablished waits until the server serves a CustomResourceDefinition's kind.
func (a *applier) waitEstablished(ctx context.Context, d *unstructured.Unstructured) error {
	if r := judge(d, false); r.ready {
		return nil
	}
	changes, err := a.objects.Resource(schema.GroupVersionResource{Group: crdKind.Group, Version: "v1", Resource: "customresourcedefinitions"}).
		Watch(ctx, metav1.ListOptions{
			FieldSelector:   fields.OneTermEqualSelector("metadata.name", d.GetName()).String(),
			ResourceVersion: d.GetResourceVersion(),
		})
	if err != nil {
		return err
	}
	defer changes.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case change, ok := <-changes.ResultChan():
			if !ok {
				return errors.New("the watch ended")
			}
			if change.Type == watch.Error {
				return apierrors.FromObject(change.Object)
			}
			now, ok := change.Object.(*unstructured.Unstructured)
			if change.Type == watch.Deleted || !ok {
				return errors.New("it was deleted")
			}
			if r := judge(now, false); r.ready {
				return nil
			}
		}
	}
}

// waitDiscovered waits until a group and version is in discovery and in OpenAPI.
func (a *applier) waitDiscovered(ctx context.Context, gv schema.GroupVersion) error {
	// Of OpenAPI, one document is asked for: for the list of all, the server would make every document first.
	for _, path := range []string{"/apis/" + gv.String(), "/openapi/v3/apis/" + gv.String()} {
		for {
			err := a.discovery.RESTClient().Get().AbsPath(path).Do(ctx).Error()
			if err == nil {
				break
			}
			if !apierrors.IsNotFound(err) {
				return err
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(servedPause):
			}
		}
	}
	return nil
}

// servedVersions lists the groups and versions that a CustomResourceDefinition serves.
func servedVersions(d *unstructured.Unstructured) []schema.GroupVersion {
	group, _, _ := unstructured.NestedString(d.Object, "spec", "group")
	versions, _, _ := unstructured.NestedSlice(d.Object, "spec", "versions")
	var served []schema.GroupVersion
	for _, v := range versions {
		if v, ok := v.(map[string]any); ok && v["served"] == true {
			name, _ := v["name"].(string)
			served = append(served, schema.GroupVersion{Group: group, Version: name})
		}
	}
	return served
}
