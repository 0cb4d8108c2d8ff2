// Package applyset applies a set of objects that belong to a parent, and deletes what belonged to
// the set before and does no longer.
//
//	err := applyset.Apply(ctx, c, parent, deployment, service, configMap)
//
// # Laws
//
// Members are known by a label that holds the parent's UID, so that a parent that was deleted and
// made anew does not take over, or delete, the objects of its predecessor. Where the API allows
// it, the parent is also their controller, and the garbage collector deletes them with it.
//
// Nothing is deleted before everything was applied. If one member cannot be applied, the others
// still are, and nothing is deleted in this run.
//
// The parent's annotation names the kinds and namespaces in which there may be members. It is
// extended before the first member of a new kind is applied and cut down after the last was
// deleted, so that a process that crashes in between, or a new version of it that no longer knows
// a kind, still finds all members.
//
// Only the UID that was listed is deleted. Objects that carry the label but have another
// controller are left alone.
//
// With nothing to do there is no request, provided that the members' kinds are cached with their
// labels (a controller that Owns or Reads them): the members are applied only if that changes
// something, and they are listed from the cache.
package applyset
