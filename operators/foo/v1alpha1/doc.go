// Package v1alpha1 holds the API types of the group sample.setpoint.dev: what a user writes about a Foo, and what the
// operator answers.
//
// The types carry controller-gen's markers. The deep copies and the CustomResourceDefinition in ../manifests are
// generated from them; run `go generate ./operators/foo/...` after a change here.
//
// +kubebuilder:object:generate=true
// +groupName=sample.setpoint.dev
package v1alpha1

//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 object crd:crdVersions=v1 paths=. output:crd:dir=../manifests
