package applyset

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/owner"
)

// prune deletes what is in the places, belongs to the parent, and is no member.
func (s *set) prune(ctx context.Context, places places) error {
	var errs []error
	for _, place := range places {
		former, err := s.former(ctx, place)
		if err != nil {
			errs = append(errs, err)
		}
		for i := range former {
			if err := client.IgnoreNotFound(s.client.Delete(ctx, &former[i])); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// former lists the former members in a place that still exist, sorted by name.
func (s *set) former(ctx context.Context, place place) ([]metav1.PartialObjectMetadata, error) {
	mapping, err := s.client.Mapper().RESTMapping(place.kind)
	if meta.IsNoMatchError(err) {
		return nil, nil // the kind is gone, and all its objects with it
	}
	if err != nil {
		return nil, fmt.Errorf("find the resource of kind %v: %w", place.kind, err)
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(mapping.GroupVersionKind.GroupVersion().WithKind(place.kind.Kind + "List"))
	// Live, because what a cache does not show, or not yet, would be forgotten for ever.
	err = s.client.List(ctx, list, client.Live, client.InNamespace(place.namespace), client.MatchingLabels{Label: string(s.parent.GetUID())})
	if err != nil {
		return nil, err
	}
	var former []metav1.PartialObjectMetadata
	for _, obj := range list.Items {
		controller := owner.ControllerOf(&obj)
		switch {
		case s.members[member{place.kind, obj.Namespace, obj.Name}]:
		case obj.DeletionTimestamp != nil:
		case controller != nil && controller.UID != s.parent.GetUID():
		default:
			former = append(former, obj)
		}
	}
	return former, nil
}
