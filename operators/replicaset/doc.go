// Package replicaset keeps as many Pods as each ReplicaSet (replicasets.apps) asks for. It takes the place of Kubernetes'
// own controller of that name, which must not run beside it. It is the classic example of a controller: one kind that owns
// many objects of another.
//
// Its laws:
//
//   - It keeps no books of what it expects to see. A List shows all that this process created and deleted before, so that
//     the number of Pods is always counted, never assumed.
//   - A Pod belongs to a ReplicaSet when its controller reference carries the ReplicaSet's UID. Pods without a controller
//     that the selector matches are adopted, and owned ones that it no longer matches are released. A ReplicaSet that is
//     being deleted does neither, and neither creates nor deletes.
//   - Pods that failed, succeeded or are being deleted do not count, and are left to others.
//   - Pods are created and deleted in batches that begin small and double as long as all goes well, at most Burst in one
//     reconcile, so that a quota or a webhook that refuses them is asked a few times and not thousands of times.
//   - Which Pods go when there are too many is decided by one order: see compare.
//   - The status is written only when it changes, and causes no reconcile. A failure that repeats is told in the same words,
//     so that it costs one write, and one Event with a count.
//
// What to do is decided by pure functions (claim.go, rank.go, status.go, failure.go); reconcile.go carries it out.
package replicaset
