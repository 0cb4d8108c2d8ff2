package memcached

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/setpoint-dev/setpoint/operators/memcached/v1"
	"github.com/setpoint-dev/setpoint/operators/memcached/v1alpha1"
)

const (
	// beyondAlpha is the annotation of a v1alpha1 object that keeps what only v1 has fields for, as JSON.
	beyondAlpha = "cache.setpoint.dev/v1"
	// alphaMemory is the annotation of a v1 object that keeps how v1alpha1 wrote its memory, when v1 cannot tell.
	alphaMemory = "cache.setpoint.dev/v1alpha1-memory"
)

// beyond is what only v1 has fields for.
type beyond struct {
	Resources          corev1.ResourceRequirements `json:"resources,omitzero"`
	ExtraArgs          []string                    `json:"extraArgs,omitempty"`
	Replicas           int32                       `json:"replicas,omitempty"`
	ReadyReplicas      int32                       `json:"readyReplicas,omitempty"`
	Selector           string                      `json:"selector,omitempty"`
	ObservedGeneration int64                       `json:"observedGeneration,omitempty"`
}

// alphaToHub makes a v1 of a v1alpha1.
func alphaToHub(_ context.Context, from *v1alpha1.Memcached, to *v1.Memcached) error {
	var rest beyond
	if text, kept := from.Annotations[beyondAlpha]; kept {
		if err := json.Unmarshal([]byte(text), &rest); err != nil {
			return fmt.Errorf("annotation %s: %w: remove it, or restore what was there", beyondAlpha, err)
		}
		delete(to.Annotations, beyondAlpha)
	}
	to.Spec = v1.MemcachedSpec{
		Size: from.Spec.Size, Image: from.Spec.Image, ContainerPort: from.Spec.ContainerPort,
		Resources: rest.Resources, ExtraArgs: rest.ExtraArgs,
	}
	to.Status = v1.MemcachedStatus{
		Nodes: from.Status.Nodes, Conditions: from.Status.Conditions,
		Replicas: rest.Replicas, ReadyReplicas: rest.ReadyReplicas, Selector: rest.Selector, ObservedGeneration: rest.ObservedGeneration,
	}
	delete(to.Annotations, alphaMemory)
	if memory := from.Spec.Memory; memory != nil {
		limit, err := mebibytes(*memory)
		if err != nil {
			return fmt.Errorf("spec.memory: %w", err)
		}
		to.Spec.MemoryLimitMB = &limit
		if whole := inMebibytes(limit); memory.String() != whole.String() {
			metav1.SetMetaDataAnnotation(&to.ObjectMeta, alphaMemory, memory.String())
		}
	}
	return nil
}

// hubToAlpha makes a v1alpha1 of a v1.
func hubToAlpha(_ context.Context, from *v1.Memcached, to *v1alpha1.Memcached) error {
	to.Spec = v1alpha1.MemcachedSpec{
		Size: from.Spec.Size, Image: from.Spec.Image, ContainerPort: from.Spec.ContainerPort, Memory: memoryOf(from),
	}
	to.Status = v1alpha1.MemcachedStatus{Nodes: from.Status.Nodes, Conditions: from.Status.Conditions}
	delete(to.Annotations, alphaMemory)
	delete(to.Annotations, beyondAlpha)
	rest := beyond{
		Resources: from.Spec.Resources, ExtraArgs: from.Spec.ExtraArgs,
		Replicas: from.Status.Replicas, ReadyReplicas: from.Status.ReadyReplicas, Selector: from.Status.Selector, ObservedGeneration: from.Status.ObservedGeneration,
	}
	if reflect.ValueOf(rest).IsZero() {
		return nil
	}
	text, err := json.Marshal(rest)
	if err != nil {
		return fmt.Errorf("annotation %s: %w", beyondAlpha, err)
	}
	metav1.SetMetaDataAnnotation(&to.ObjectMeta, beyondAlpha, string(text))
	return nil
}

// memoryOf returns the memory of a v1 as v1alpha1 wrote it, if that still says the same, else in mebibytes.
func memoryOf(mc *v1.Memcached) *resource.Quantity {
	limit := mc.Spec.MemoryLimitMB
	if limit == nil {
		return nil
	}
	if written, err := resource.ParseQuantity(mc.Annotations[alphaMemory]); err == nil {
		if same, err := mebibytes(written); err == nil && same == *limit {
			return &written
		}
	}
	return new(inMebibytes(*limit))
}

// mebibytes returns a quantity in MiB, rounded up.
func mebibytes(q resource.Quantity) (int32, error) {
	bytes := q.Value()
	if bytes < 1 || bytes > maxMemory*mebibyte {
		return 0, fmt.Errorf("%s is not between 1 byte and %d MiB", q.String(), maxMemory)
	}
	return int32((bytes + mebibyte - 1) / mebibyte), nil
}

func inMebibytes(n int32) resource.Quantity {
	return *resource.NewQuantity(int64(n)*mebibyte, resource.BinarySI)
}
