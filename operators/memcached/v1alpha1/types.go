package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Memcached asks for a number of memcached servers that clients spread their keys over.
//
// +kubebuilder:object:root=true
// +kubebuilder:unservedversion
// +kubebuilder:deprecatedversion:warning="cache.setpoint.dev/v1alpha1 Memcached is deprecated: use cache.setpoint.dev/v1"
// +kubebuilder:resource:path=memcacheds,singular=memcached,shortName=mc,categories=all
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Nodes",type=string,JSONPath=`.status.nodes`,description="Names of the nodes"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Memcached struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is asked for.
	//
	// +optional
	Spec MemcachedSpec `json:"spec,omitempty"`

	// What was found; written by the operator only.
	//
	// +optional
	Status MemcachedStatus `json:"status,omitempty"`
}

// MemcachedSpec is what a user asks for. What v1 has beyond it is kept in an annotation.
type MemcachedSpec struct {
	// Number of nodes, from 0 to 100.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Size *int32 `json:"size,omitempty"`

	// Image of the nodes.
	//
	// +optional
	Image string `json:"image,omitempty"`

	// TCP port of every node.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	ContainerPort int32 `json:"containerPort,omitempty"`

	// Memory for cached items on each node, such as 64Mi. v1 counts whole mebibytes; what is between is rounded up.
	//
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`
}

// MemcachedStatus is what the operator found.
type MemcachedStatus struct {
	// Names of the Pods that are the nodes.
	//
	// +optional
	// +listType=atomic
	Nodes []string `json:"nodes,omitempty"`

	// Available, Progressing and Degraded.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// MemcachedList is a list of Memcacheds.
//
// +kubebuilder:object:root=true
type MemcachedList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Memcached `json:"items"`
}
