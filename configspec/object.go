package configspec

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/condition"
)

// ConditionValid is the type of the condition that says whether the document is valid.
const ConditionValid = "Valid"

// The reasons of the condition Valid, and of Events about it.
const (
	ReasonValid     = "DocumentValid"     // it is
	ReasonMissing   = "DocumentMissing"   // the ConfigMap has not the key
	ReasonTooLarge  = "DocumentTooLarge"  // see Options.MaxBytes
	ReasonMalformed = "DocumentMalformed" // neither YAML nor JSON, or not of the type
	ReasonInvalid   = "DocumentInvalid"   // Options.Validate says so
)

// Object is a document, and the ConfigMap that holds it.
type Object[T any] struct {
	// ConfigMap is the reconcile's own copy. It is what children are owned by, Events are about and finalizers
	// are kept in.
	ConfigMap *corev1.ConfigMap
	// Spec is the document, valid and with defaults: the present one, or while that is not valid the last one
	// that was. It is zero when the ConfigMap is being deleted and no document was ever valid.
	Spec T
	// Invalid says what is wrong with the present document. Nil: nothing.
	Invalid error
	// Status is what the reconciler may change; it is written when it returns, also with an error. The
	// condition Valid, Observed and Applied are set already, and changes of them do not count.
	Status Status

	observed, applied string           // what Status is to say
	valid             metav1.Condition // likewise
	document          string           // the last valid one, to be kept
	known             bool             // whether Spec is a document
}

// stamp puts into the status what is not the reconciler's.
func (o *Object[T]) stamp() {
	o.Status.Observed, o.Status.Applied = o.observed, o.applied
	condition.Set(&o.Status.Conditions, o.valid)
}

// Status is what is known of a document.
type Status struct {
	// Observed is the Hash of the document that was looked at last, valid or not. It differs from that of the
	// present one while that was not looked at yet. Empty: there is no document.
	Observed string `json:"observed,omitempty"`
	// Applied is the Hash of the last valid document, which is what is to run: the same as Observed, or that
	// of an earlier one.
	Applied string `json:"applied,omitempty"`
	// Conditions are kept with package condition. They have no observed generation, since ConfigMaps have
	// none: but for Valid they are about the document of Applied.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Values is what else is worth showing, or remembering: an address, a number, the name of something
	// external.
	Values map[string]string `json:"values,omitempty"`
}

// copy returns a Status that shares nothing with s.
func (s Status) copy() Status {
	s.Conditions, s.Values = slices.Clone(s.Conditions), maps.Clone(s.Values)
	return s
}
