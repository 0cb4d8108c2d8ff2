// Package foo is the operator of the kind Foo (foos.sample.setpoint.dev): each Foo owns one Deployment. It is meant to be
// read as the first operator: small, and complete in what an operator owes its users.
//
// Its laws:
//
//   - The Deployment is first created, never applied, so that a Deployment of that name that somebody else made is never
//     taken over. From then on it is applied server-side with its UID: the fields the Foo speaks about are brought back
//     whenever they drift, and fields of others are left alone.
//   - A Deployment belongs to a Foo when its controller reference carries the Foo's UID. A name or a label proves nothing.
//   - When the wanted name is taken, the Foo says so in its conditions and in an Event, keeps what it already runs, and
//     goes on by itself as soon as the name is free.
//   - When spec.deploymentName changes, the new Deployment is made before the old one is deleted.
//   - The status is written only when it changes. With nothing to do, no request is made.
//   - Deletion is left to the garbage collector; a Foo that is being deleted is not touched.
//
// What to do is decided by pure functions (desired.go, decide.go, status.go); reconcile.go carries it out.
package foo
