package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Condition types of a Memcached. Each is about the whole of it, for one and the same reason.
const (
	// ConditionAvailable says whether clients are served: all nodes but at most one are ready, and at least one is.
	// With no nodes asked for it is True.
	ConditionAvailable = "Available"
	// ConditionProgressing says whether something is under way that needs no help: nodes start, stop or are replaced.
	ConditionProgressing = "Progressing"
	// ConditionDegraded says whether it needs help to become, or to be again, what the spec asks for.
	ConditionDegraded = "Degraded"
)

// Reasons of a Memcached's conditions.
const (
	// ReasonReady: all nodes that were asked for are ready and up to date.
	ReasonReady = "Ready"
	// ReasonScaledToZero: no node is asked for, and none is left.
	ReasonScaledToZero = "ScaledToZero"
	// ReasonRollingOut: nodes are started, stopped or replaced.
	ReasonRollingOut = "RollingOut"
	// ReasonChildDeleting: an object of the Memcached is being deleted; a new one follows once it is gone.
	ReasonChildDeleting = "ChildDeleting"
	// ReasonDeleting: the Memcached is being deleted and its nodes are stopped.
	ReasonDeleting = "Deleting"
	// ReasonNameTaken: an object of the Memcached's name exists and is not the Memcached's.
	ReasonNameTaken = "NameTaken"
	// ReasonRejected: the server does not accept an object that the spec leads to.
	ReasonRejected = "Rejected"
	// ReasonNodeFailing: a node cannot start or keeps crashing.
	ReasonNodeFailing = "NodeFailing"
	// ReasonNoProgress: nodes are missing or not ready, and nothing has moved for ten minutes.
	ReasonNoProgress = "NoProgress"
)

// Memcached asks for a number of memcached servers that clients spread their keys over.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:path=memcacheds,singular=memcached,shortName=mc,categories=all
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.size,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Size",type=integer,JSONPath=`.spec.size`,description="Nodes asked for"
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`,description="Nodes that are ready"
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`,description="Whether clients are served"
// +kubebuilder:printcolumn:name="Degraded",type=string,JSONPath=`.status.conditions[?(@.type=="Degraded")].status`,description="Whether it needs help"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].reason`,description="Why it is so"
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.image`,priority=1,description="Image of the nodes"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 52 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="the name is part of the nodes' host names: at most 52 lower case letters, digits and dashes that begin with a letter and do not end with a dash"
type Memcached struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is asked for.
	//
	// +optional
	// +kubebuilder:default={}
	Spec MemcachedSpec `json:"spec,omitempty"`

	// What was found; written by the operator only.
	//
	// +optional
	Status MemcachedStatus `json:"status,omitempty"`
}

// MemcachedSpec is what a user asks for.
type MemcachedSpec struct {
	// Number of nodes, from 0 to 100. It is what the scale subresource changes.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Size *int32 `json:"size,omitempty"`

	// Image of the nodes; its entry point takes memcached's arguments. When it changes, one node after the other is
	// replaced, each with an empty cache.
	//
	// +optional
	// +kubebuilder:default="memcached:1.6"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^\S+$`
	Image string `json:"image,omitempty"`

	// TCP port of every node. The Service has the same.
	//
	// +optional
	// +kubebuilder:default=11211
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	ContainerPort int32 `json:"containerPort,omitempty"`

	// Memory for cached items on each node, in MiB (memcached's -m), from 1 to 1048576. When it is not set, it is three
	// quarters of resources.limits.memory, or 64 when there is no such limit. It must be less than that limit, or nodes would
	// be killed when they fill up.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1048576
	MemoryLimitMB *int32 `json:"memoryLimitMB,omitempty"`

	// Resources of each node. When memory is neither requested nor limited, both are memoryLimitMB and a third more, plus
	// 16 MiB.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.claims)",message="claims are not supported"
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`

	// Further arguments of memcached, such as -c and 2048, or --extended=modern. Those that have a field of their own here
	// (-p, -m) and those with which a node would not serve (-d, -s, -l) are refused.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.all(a, !a.matches('^(-[pmdsl]|--(port|memory-limit|daemon|unix-socket|listen)(=|$))'))",message="-p and -m have fields of their own; with -d, -s and -l a node would not serve"
	ExtraArgs []string `json:"extraArgs,omitempty"`
}

// MemcachedStatus is what the operator found.
type MemcachedStatus struct {
	// Names of the Pods that are the nodes, in their order. A Pod that is being deleted is none.
	//
	// +optional
	// +listType=atomic
	Nodes []string `json:"nodes,omitempty"`

	// Number of nodes.
	//
	// +optional
	Replicas int32 `json:"replicas"`

	// Number of nodes that are ready.
	//
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// Label selector of the nodes' Pods in its string form, for the scale subresource.
	//
	// +optional
	Selector string `json:"selector,omitempty"`

	// The metadata.generation that this status speaks about.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

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
