// Package cache keeps the objects of chosen kinds in memory, in step with the API server, and tells subscribers
// what changed.
//
// One watch per resource and namespace feeds one store per kind. The store keeps each object as the bytes it
// arrived in, without managedFields, beside its key, its labels and its index values; every read decodes a
// private copy.
//
// # Laws
//
// Declared. Only [Cache.Watch] starts a watch. A read of a kind nobody watches gives [ErrNotCached]; it never
// starts a watch and never asks the server. Watches are counted: the first user of a kind starts it, the last
// one to close stops it and frees its memory.
//
// Private. What a read returns belongs to the caller alone. Nothing a caller does to it reaches the cache or
// another caller. Strings are the exception that no one can notice, for they never change: those of a built-in
// kind are parts of the stored bytes and keep these alive as long as they are kept. Who keeps one string of
// many objects for long clones it.
//
// Consistent. A List shows the store at one instant, sorted by namespace and name. All representations (typed,
// unstructured, metadata only) are decoded from the same bytes. A built-in kind travels as protobuf, which does
// not name its fields: read as unstructured it goes by way of the Go type, and fields that this program's
// version of the type does not know are missing. Who must see them reads live, or makes a cache whose Scheme
// does not know the kind: it then travels as JSON.
//
// Covered. A kind may be limited to namespaces, also to a set that changes while it is watched. What lies
// outside gives ErrNotCached and is none of the cache's business; what leaves is told as a deletion, what enters
// as an addition, and no read sees a namespace that is half listed.
//
// Ordered. A subscriber first gets every object present when it joined, as Initial changes; then Synced is
// closed; then it gets the changes since, without a gap. Changes of one object arrive in the order of its
// revisions. Changes that wait for a slow subscriber are merged by object, so what waits is bounded by the
// number of objects; a deletion followed by a new object of the same name is never merged into a modification.
// An object that came and went while waiting, or while the watch was away, is not shown at all, unless somebody
// in this process has dealt with it at the server and said so by [Cache.Expect]: then its end is told. Of a kind,
// ten thousand such objects are remembered until the watch has passed their revision.
//
// Independent. Each subscriber is served by its own goroutine. A slow one delays neither the others nor the
// watch.
//
// Bounded. No call waits longer than its context. No request waits longer than the bounds of the watch loop,
// and a broken watch is retried for ever, with back-off; what it last failed with is shown by [Watch.Err] and
// in the error of every read that waits for it. The decoded forms of custom resources, from which reads copy
// because JSON decodes slowly, take at most about 128 MiB per kind; those that were not read for longest go
// first and are decoded again when they are read. The dictionary of a compressed kind takes about a megabyte.
//
// # The wire
//
// Built-in kinds and metadata are asked for as protobuf, custom resources as JSON, and what the server offers
// instead is taken. CBOR is not asked for: servers offer it only behind an alpha feature gate.
package cache
