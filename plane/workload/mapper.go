package workload

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// lateMapper resolves each call with the newest snapshot.
type lateMapper struct{ resources *resources }

func (m lateMapper) KindFor(resource schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return m.resources.snapshot().mapper.KindFor(resource)
}

func (m lateMapper) KindsFor(resource schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	return m.resources.snapshot().mapper.KindsFor(resource)
}

func (m lateMapper) ResourceFor(input schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	return m.resources.snapshot().mapper.ResourceFor(input)
}

func (m lateMapper) ResourcesFor(input schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	return m.resources.snapshot().mapper.ResourcesFor(input)
}

func (m lateMapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	return m.resources.snapshot().mapper.RESTMapping(kind, versions...)
}

func (m lateMapper) RESTMappings(kind schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	return m.resources.snapshot().mapper.RESTMappings(kind, versions...)
}

func (m lateMapper) ResourceSingularizer(resource string) (string, error) {
	return m.resources.snapshot().mapper.ResourceSingularizer(resource)
}
