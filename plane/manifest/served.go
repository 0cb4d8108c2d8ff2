package manifest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

var crdResource = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

func isCRD(object *unstructured.Unstructured) bool {
	return object.GroupVersionKind().GroupKind() == schema.GroupKind{Group: crdResource.Group, Kind: "CustomResourceDefinition"}
}

// awaitServed waits until a kind is established, in discovery and in OpenAPI.
func (a *Applier) awaitServed(ctx context.Context, crd *unstructured.Unstructured) error {
	established, err := a.awaitEstablished(ctx, crd.GetName())
	if err != nil {
		return err
	}
	group, _, _ := unstructured.NestedString(established.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(established.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(established.Object, "spec", "versions")
	for _, v := range versions {
		version, _ := v.(map[string]any)
		if served, _, _ := unstructured.NestedBool(version, "served"); !served {
			continue
		}
		name, _, _ := unstructured.NestedString(version, "name")
		if err := a.awaitPublished(ctx, schema.GroupVersionKind{Group: group, Version: name, Kind: kind}); err != nil {
			return err
		}
	}
	return nil
}

// awaitEstablished waits for the condition Established and returns the definition.
func (a *Applier) awaitEstablished(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	for {
		w, err := a.dynamic.Resource(crdResource).Watch(ctx, metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String(),
		})
		if err != nil {
			return nil, err
		}
		crd, err := untilEstablished(ctx, w)
		if crd != nil || err != nil {
			return crd, err
		}
	}
}

// untilEstablished returns nil when the watch ends before.
func untilEstablished(ctx context.Context, w watch.Interface) (*unstructured.Unstructured, error) {
	defer w.Stop()
	last := "it has no conditions yet"
	for {
		select {
		case event, open := <-w.ResultChan():
			if !open {
				return nil, ctx.Err()
			}
			crd, ok := event.Object.(*unstructured.Unstructured)
			if !ok {
				return nil, fmt.Errorf("watching it: %v", event.Object)
			}
			conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
			for _, c := range conditions {
				condition, _ := c.(map[string]any)
				switch {
				case condition["type"] == "Established" && condition["status"] == "True":
					return crd, nil
				case condition["type"] == "NamesAccepted" && condition["status"] == "False":
					return nil, fmt.Errorf("its names are not accepted: %v", condition["message"])
				}
				last = fmt.Sprintf("%v is %v: %v", condition["type"], condition["status"], condition["message"])
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("%w (%s)", ctx.Err(), last)
		}
	}
}

// awaitPublished waits for discovery and OpenAPI, which follow the condition without
// an event of their own: they can only be asked.
func (a *Applier) awaitPublished(ctx context.Context, gvk schema.GroupVersionKind) error {
	const pause = 2 * time.Millisecond
	for {
		err := a.published(gvk)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(pause):
		}
	}
}

func (a *Applier) published(gvk schema.GroupVersionKind) error {
	if _, err := a.lookUp(gvk); err != nil {
		return err
	}
	groups, err := a.discovery.ServerGroups()
	if err != nil {
		return fmt.Errorf("asking for the groups: %w", err)
	}
	inGroups := slices.ContainsFunc(groups.Groups, func(g metav1.APIGroup) bool {
		return slices.ContainsFunc(g.Versions, func(v metav1.GroupVersionForDiscovery) bool {
			return v.GroupVersion == gvk.GroupVersion().String()
		})
	})
	if !inGroups {
		return fmt.Errorf("%s is not among the groups yet", gvk.GroupVersion())
	}
	schemas, err := a.discovery.OpenAPIV3().Paths()
	if err != nil {
		return fmt.Errorf("asking for the OpenAPI schemas: %w", err)
	}
	if schemas["apis/"+gvk.GroupVersion().String()] == nil {
		return fmt.Errorf("%s is not in OpenAPI v3 yet", gvk.GroupVersion())
	}
	return nil
}
