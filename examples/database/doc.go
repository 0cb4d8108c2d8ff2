// Package database is an operator that brings up a replicated database in stages, as an example of package steps. What it
// does is in reconcile.go, to be read from top to bottom; the kind is in types.go.
//
// Its laws:
//
//   - Each run begins at the first stage and does what is missing; the operator remembers nothing. It may be restarted
//     between any two writes.
//   - The password is made once. Everything else is applied, and comes back when somebody changes it.
//   - Who is the primary is first written down and then carried out, old one first: there are never two. It stays the
//     primary as long as it is ready; then the instance follows that has come furthest.
//   - A Database that is being deleted stops its instances, then deletes their volumes, which a StatefulSet leaves behind.
//
// The databases here have no replication of their own to speak of: an instance would report how far it has come in the
// annotation that PositionAnnotation names, and follow the label that RoleLabel names.
//
// +kubebuilder:object:generate=true
// +groupName=example.setpoint.dev
// +versionName=v1
package database

//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 object crd:crdVersions=v1 paths=. output:crd:dir=manifests
