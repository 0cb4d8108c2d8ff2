package database

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of Database.
var GroupVersion = schema.GroupVersion{Group: "example.setpoint.dev", Version: "v1"}

// AddToScheme teaches a scheme the kind Database.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Database{}, &DatabaseList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// Condition types of a Database.
const (
	// ConditionBootstrapped says that the first instance was up once, so that the others have somebody to copy from.
	ConditionBootstrapped = "Bootstrapped"
	// ConditionReady says whether all stages are done: there is a primary, and clients reach it.
	ConditionReady = "Ready"
)

// Database asks for a database of several instances, of which one is the primary.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=databases,singular=database,shortName=db
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Primary",type=string,JSONPath=`.status.primary`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type Database struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is asked for.
	//
	// +optional
	// +kubebuilder:default={}
	Spec DatabaseSpec `json:"spec,omitempty"`

	// What was found; written by the operator only.
	//
	// +optional
	Status DatabaseStatus `json:"status,omitempty"`
}

// DatabaseSpec is what a user asks for.
type DatabaseSpec struct {
	// Number of instances, from 1 to 9.
	//
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9
	Instances int32 `json:"instances,omitempty"`

	// Image of the instances.
	//
	// +optional
	// +kubebuilder:default="postgres:18"
	Image string `json:"image,omitempty"`

	// Settings of the database, one line each.
	//
	// +optional
	Settings map[string]string `json:"settings,omitempty"`
}

// DatabaseStatus is what the operator found and decided.
type DatabaseStatus struct {
	// Name of the Pod that is to be the primary.
	//
	// +optional
	Primary string `json:"primary,omitempty"`

	// The metadata.generation that this status speaks about.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Bootstrapped and Ready.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// DatabaseList is a list of Databases.
//
// +kubebuilder:object:root=true
type DatabaseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Database `json:"items"`
}
