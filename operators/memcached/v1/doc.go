// Package v1 holds the API types of the group cache.setpoint.dev in the version that is stored: what a user writes about
// a Memcached, and what the operator answers. It is the hub of the conversions.
//
// The types carry controller-gen's markers. The deep copies and the CustomResourceDefinition in ../manifests are
// generated from them; run `go generate ./operators/memcached` after a change here.
//
// +kubebuilder:object:generate=true
// +groupName=cache.setpoint.dev
package v1
