// Package memcached is the operator of the kind Memcached (memcacheds.cache.setpoint.dev): each Memcached runs a number
// of memcached servers, its nodes, among which clients divide their keys.
//
// The nodes are the Pods of a StatefulSet, not of a Deployment, because clients hash keys onto nodes by name: a node that
// is replaced keeps its name and so its share of the keys, scaling moves only the shares of the last nodes, and an update
// empties one share at a time. Nodes do not need each other, so they start in parallel. A headless Service of the same
// name gives each its address, and a PodDisruptionBudget keeps evictions to one node at a time.
//
// Its laws:
//
//   - The spec belongs to its users. The operator writes nothing of a Memcached but its finalizer and its status.
//   - Its objects have its name, and belong to it when their controller reference carries its UID. The first apply only
//     ever creates, later ones carry the UID, so that a stranger's object is never taken over. What the Memcached speaks
//     about is brought back whenever it drifts, and fields of others are left alone.
//   - When a name is taken or the server rejects an object, the conditions and an Event say so, the rest is done, and it
//     goes on by itself as soon as it can.
//   - The conditions are about the Pods as they are, never about what was asked for. They are written only when they
//     change; with nothing to do, no request is made.
//   - The finalizer is there before the first object. A deleted Memcached first leaves the DNS, then its nodes stop, and
//     only when the last has ended does it go: a successor of its name never meets its nodes. An orphaning deletion
//     leaves everything as it is.
//
// What to do is decided by pure functions (desired.go, standing.go, status.go, nodes.go); reconcile.go carries it out. Webhooks
// are optional (webhooks.go): they fill in defaults, explain mistakes that the schema refuses only bluntly or not at all,
// and convert v1alpha1.
package memcached

//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 object crd:crdVersions=v1 paths="./v1;./v1alpha1" output:crd:dir=manifests
