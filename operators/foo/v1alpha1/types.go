package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Condition types of a Foo.
const (
	// ConditionReady says whether the Foo's Deployment runs what the spec asks for, at the scale it asks for.
	ConditionReady = "Ready"
	// ConditionProgressing says whether something is still under way without help from outside. It is False both when all
	// is done and when the Foo is stuck; ConditionReady tells the two apart.
	ConditionProgressing = "Progressing"
)

// Reasons of a Foo's conditions.
const (
	// ReasonAvailable: every replica asked for is up to date and available.
	ReasonAvailable = "Available"
	// ReasonScaledToZero: no replica is asked for, and none is left.
	ReasonScaledToZero = "ScaledToZero"
	// ReasonRollingOut: the Deployment is on its way to the spec.
	ReasonRollingOut = "RollingOut"
	// ReasonDeploymentDeleting: the Foo's Deployment is being deleted; a new one follows once it is gone.
	ReasonDeploymentDeleting = "DeploymentDeleting"
	// ReasonNameTaken: a Deployment of the wanted name exists and is not this Foo's.
	ReasonNameTaken = "DeploymentNameTaken"
	// ReasonRejected: the server does not accept the Deployment that the spec leads to.
	ReasonRejected = "DeploymentRejected"
	// ReasonDeadlineExceeded: the Deployment reports that its roll-out makes no progress.
	ReasonDeadlineExceeded = "ProgressDeadlineExceeded"
	// ReasonReplicaFailure: the Deployment reports that Pods cannot be created.
	ReasonReplicaFailure = "ReplicaFailure"
)

// Foo asks for one Deployment. It is the smallest operator that does everything an operator must.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=foos,singular=foo,categories=all
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.availableReplicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.spec.replicas`,description="Replicas asked for"
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.availableReplicas`,description="Replicas that are available"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the Foo is what its spec asks for"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it is ready or not"
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.image`,priority=1,description="Image of the container"
// +kubebuilder:printcolumn:name="Deployment",type=string,JSONPath=`.spec.deploymentName`,priority=1,description="Name of the Deployment, empty when it is the Foo's own"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Foo struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is asked for.
	//
	// +optional
	// +kubebuilder:default={}
	Spec FooSpec `json:"spec,omitempty"`

	// What was found; written by the operator only.
	//
	// +optional
	Status FooStatus `json:"status,omitempty"`
}

// FooSpec is what a user asks for.
type FooSpec struct {
	// Name of the Deployment in the Foo's namespace. When empty, it is the Foo's own name. When it changes, a Deployment
	// of the new name is made and the old one is deleted. It is shorter than other names, since the names of the
	// Deployment's ReplicaSets are made of it.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=242
	// +kubebuilder:validation:Pattern=`^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	DeploymentName string `json:"deploymentName,omitempty"`

	// Number of Pods, from 0 to 100.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Replicas *int32 `json:"replicas,omitempty"`

	// Image that the Pods run.
	//
	// +optional
	// +kubebuilder:default="nginx:latest"
	// +kubebuilder:validation:MinLength=1
	Image string `json:"image,omitempty"`
}

// FooStatus is what the operator found.
type FooStatus struct {
	// Number of Pods that have been ready for long enough to count as available.
	//
	// +optional
	AvailableReplicas int32 `json:"availableReplicas"`

	// Label selector of the Foo's Pods in its string form, for the scale subresource.
	//
	// +optional
	Selector string `json:"selector,omitempty"`

	// The metadata.generation that this status speaks about.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Ready and Progressing.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// FooList is a list of Foos.
//
// +kubebuilder:object:root=true
type FooList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Foo `json:"items"`
}
