// Package client reads and writes API objects: reads from the cache where it covers the kind,
// writes to the server.
//
// A [Client] takes objects in three representations alike: Go types of its scheme,
// *unstructured.Unstructured and *metav1.PartialObjectMetadata. Typed objects of built-in kinds
// travel as protobuf, all others as JSON.
//
// # Laws
//
// Nothing starts by itself. A read of a kind or namespace that the cache does not cover goes to
// the server. It never starts a watch. [Live] makes any read go there.
//
// Reads see own writes. A cached read first waits until the cache shows what this client wrote
// under the key, or for a List in the namespace, in any representation and by any verb. Precisely,
// for each write the cache must
//
//   - have reached the revision of the answer, if it can ever show the object;
//   - hold no object of that UID, if the object was deleted, lost its last finalizer, or
//     left the cache's selectors.
//
// Where the answer was lost, or tells too little (DeleteAllOf, an Eviction, metadata of an object
// outside a cache that is limited by fields), the next read asks the server what is there now, and
// waits for that. It does the same after a write that the server refused for a state that the cache
// does not show (AlreadyExists, NotFound, Conflict), so that the next reconcile reads what this one
// failed on.
//
// The wait is bounded: from [Config.OwnWriteWait] after the write on, reads go to the server at
// once, with a metric and one log line, until the cache has caught up; what is written meanwhile in
// the same namespace is not waited for at all. A first listing is waited for as long, counted from
// the beginning of the watch. The reads then ask for, and show, only what the cache could show, in
// one namespace at a time if it is limited to some. [AllowStale] reads without waiting. Writes that the cache will never show
// are not waited for. Revisions are compared as numbers of any length; for an API whose revisions
// are no numbers there is no order to wait by, and reads may be stale. A lost write that reaches
// the server only after it was asked cannot be known.
//
// No write without change. An [Client.Apply] is not sent when the cached object has all its values
// and says that its field owner applied just these fields, or when it is in the state to which the
// same apply came before; an [Client.Update], also of the status, when the cached object of that
// revision is equal; a [Client.Patch] when it is empty. In doubt the request is sent, as for kinds
// that the cache transforms. One case is not told apart: applying values below a map that was
// applied as an empty map before, when somebody else has set just these values, is taken for no
// change, so that this owner does not become their co-owner.
//
// No end goes untold. Of an object that this client wrote, or read from the server in place of the
// cache, the watchers of its kind learn the end, even if it went before the cache saw it come. Its
// last state is then what this client saw of it, which of metadata is no more than these.
//
// Destructive calls carry preconditions. [Client.Delete] deletes the UID that the passed object
// has; [IfUnchanged] adds its revision. An error says when a precondition failed.
//
// One gate. Every request passes [Config.Gate] at the point where it leaves.
//
// # Concurrency and memory
//
// A Client may be used concurrently; it starts no goroutine. What it returns belongs to the
// caller. It remembers at most ten thousand written keys of a resource that the cache has not
// shown yet; beyond that it bars cached reads of the whole resource until the server was asked
// once.
package client
