// Package workload runs Kubernetes' own controllers beside an embedded API
// server: what makes a Deployment have Pods, a deleted owner take its dependents
// with it and a deleted namespace really go. The code of the controllers is
// upstream's; this package chooses, wires and starts them, and does itself the
// three things that upstream does too slowly or not at all for a server that
// lives in the same process:
//
//   - Namespaces are emptied at once. Upstream waits five seconds so that
//     replicated API servers learn of the deletion; here there is one.
//   - New API resources are noticed by an event, the change of a
//     CustomResourceDefinition, and not by asking for discovery every 30 seconds,
//     so that the custom resources of a definition just created are collected and
//     counted from the start.
//   - Volumes come into being when they are claimed: the StorageClass "standard"
//     is the default one, and its volumes simply exist.
//
// # Laws
//
// The controllers share one set of informers, without managedFields, and ask the
// API server without a rate limit. Every goroutine ends with the context that
// Start was given, and [Controllers.Wait] returns after the last one. Several
// planes in one process have nothing in common but upstream's own globals
// (metrics, klog, and one period of the Job controller, see batch.go).
//
// Requests carry the user agent "kube-controller-manager/NAME", so that the
// field manager of what they write is the one of a real cluster.
package workload
