// Package v1alpha1 holds the first version of the API of cache.setpoint.dev. It is served where the operator's webhooks
// are, which convert it to and from v1; nothing is stored in it.
//
// +kubebuilder:object:generate=true
// +groupName=cache.setpoint.dev
package v1alpha1
