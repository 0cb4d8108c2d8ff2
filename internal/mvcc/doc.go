// Package mvcc is an ordered, copy-on-write, multi-version table: string keys, values of any type, one revision counter.
// The runtime's cache keeps its objects in one table per watched kind, the plane's store keeps all of its in one.
//
//	Table ── current ──▶ state (revision 9)
//	                     ├─ root ────▶ [ a…   m… ]            branch: children with their lower bounds
//	                     │             ╱      ╲
//	  state (revision 8) │       [a c e]     [m p'z]          leaves: entries, ascending
//	  └─ root ─▶ [ a…  m… ] ──────┘ (shared)
//	                   ╲
//	                  [m p z]                                 kept only while a Snapshot of revision 8 is
//
//	                     └─ history ─▶ [c₁ … c₆₄] [c₆₅ … ]  chunks of changes with old and new value, oldest first
//
// How it works:
//
//   - Read: load the current state (one atomic load), walk down. A Snapshot is that pointer.
//   - Write: copy the leaf and the branches above it, change the copies, publish a new state. Nodes that a transaction has
//     made itself are changed in place, so a transaction of many writes copies each node once.
//   - Follow: read Changes(last revision seen) of a new Snapshot, then wait for Changed(its revision).
//   - Look back: At undoes the changes since, newest first, on a private copy of the path to each.
//
// Laws:
//
//   - Order. Commits are totally ordered. Each commit that changed anything has the next revision; every change in it
//     carries that revision, in the order in which they were made (a key that is written twice appears twice). A revision once
//     seen by anyone contains all lower ones.
//   - Concurrency. Readers take no lock, wait for nobody and hold up nobody. Write transactions run one at a time. An Update
//     returns after its commit is visible to everyone.
//   - Ownership. The table never looks into values and hands out the very value it was given: values must be immutable, or
//     the caller copies. Keys and values stay referenced by the current state, by the history until they are dropped from
//     it, and by each Snapshot that saw them. A Snapshot also keeps the history as it was.
//   - Limits. The history keeps the last Options.History changes and less than one chunk (64) more, or fewer when their old
//     values weigh too much; reading older ones gives ErrCompacted. Compact drops more. There is no limit on entries.
//   - Space. An entry costs its key, its value, 24 bytes for the key's header and the revision, and about a tenth to a third
//     on top for unused room (a tenth when keys arrive in ascending order).
//   - Time. Get, Set, Delete and Count are O(log n); Set and Delete allocate about 2 KiB, less in a transaction of many.
//   - Nothing here starts a goroutine or looks at a clock.
package mvcc
