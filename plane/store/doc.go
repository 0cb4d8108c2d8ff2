// Package store keeps the objects of the plane's API server: a storage.Interface of k8s.io/apiserver over one multi-version
// table in memory. It takes the place of etcd and of the watch cache in front of it.
//
//	registry of pods ──▶ resource "/pods/"  ─┐                         ┌─▶ watcher ─▶ events
//	registry of nodes ─▶ resource "/nodes/" ─┼─▶ Store.write ─▶ table ─┼─▶ watcher ─▶ events
//	custom resources ──▶ resource "/g/r/"   ─┘   (one at a time)   │   └─▶ …
//	                          └── reads ◀── snapshots ◀────────────┘
//
// Laws:
//
//   - One keyspace, one revision. Every change of any resource is the next revision of the whole store, and is of one key. The
//     revision is the resourceVersion of the object written, also of a deleted one in its DELETED event. Revisions start at 2;
//     1 is the empty store.
//   - Linearizable. A write that has returned is seen by every read and watch that begins afterwards; there is no cache to lag
//     behind. A read never waits for a write.
//   - Writes compare and set on the revision of the object they have read, so no update is lost. Create, GuaranteedUpdate and
//     Delete treat suggestions, preconditions and validation as upstream's etcd3 storage does. One thing differs: an update
//     that gives no TTL keeps the time at which the object expires, as storage.Interface says, and ResponseMeta tells the TTL.
//   - Nobody can corrupt the store. Objects are kept encoded; each read decodes a copy of its own. (Copying a decoded object
//     would take less than half of the time, but keeping each object decoded takes four times the memory of the encoded
//     ones, and a request costs more than ten times the difference.)
//   - Lists are of one revision, also in pages: a continue token names the revision of its first page, which is rebuilt from the
//     history.
//   - Watches send every change after their start exactly once, in the order of revisions. Nothing holds up a writer: a watch
//     reads the history by itself. Its reader may fall behind as far as the history goes; behind that, the watch sends what it
//     had taken out before, then an ERROR event with 410 Expired, and ends. A watch for which nothing happens never
//     expires, whatever happens to others.
//   - Bookmarks come each Config.BookmarkInterval and two seconds before the deadline of the request, and mark the end of
//     initial events. They name the newest revision up to which the watch has been told everything, so they also move
//     when only other resources change.
//   - Events of a resource with three watches or more hold objects that are shared (runtime.CacheableObject), decoded and
//     encoded once for all of them.
//   - Bounded. The history is limited by number of changes and by bytes, whichever comes first. A watch holds at most 32 events for
//     its reader and 64 changes. Objects with a TTL have one element in a queue for each time they were written.
//   - Time is package time: expiry (to the nanosecond) and bookmarks run on a virtual clock in a testing/synctest bubble.
//   - No files, no sockets. The only goroutines are one for each watch; Stop ends them all and the expiry, and waits for that.
//     The destroy function of an Interface does it for its own watches.
//
// Seams for what comes later: Store.write is the only place where a change is made, so a log on disk is appended to there,
// and faults in writes, reads and watches can be injected by a storage.Interface that wraps the one from Store.Interface.
package store
