// Package filter decides which changes of an object are worth a reconcile.
//
// A [Change] is one step of one object as the cache saw it: the state before and the state after. A [Filter] looks
// at it and answers true when it should reach the controller's queue. Filters save work; they never carry
// information: what a reconciler does depends on what it reads, not on the change that woke it. Because of that
// a filter that passes too much costs time, and one that passes too little loses an update for ever. The filters of
// this package pass when they are in doubt.
//
// # Laws
//
//   - A filter is a pure function of the change. It may be called from several goroutines, more than once for one
//     change, and with changes merged: Old may be several steps before New.
//   - An object that appears (Old is nil) and one that goes (New is nil) pass every "changed" filter here, and so does
//     the update that marks it for deletion: a finalizer has to see it. See [Change.Deletion].
//   - States are read-only. The ObjectMeta and the object that a [State] hands out are shared by all filters and map
//     functions of the change; a filter that writes to them breaks its neighbours. They are not the cache's own memory:
//     no filter can corrupt the cache.
//   - Decoding is lazy. A filter that looks only at metadata costs no decoding of the object; the first that asks for the
//     object pays for it once and all others share the result.
package filter
