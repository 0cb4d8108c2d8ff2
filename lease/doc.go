// Package lease elects, by a coordination.k8s.io Lease, the one replica whose
// controllers work.
//
// An Elector campaigns for a Lease, calls a function while it holds it, renews
// it meanwhile, and gives it back. Its laws:
//
//   - At most one leads. The function's context is cancelled no later than
//     RenewDeadline after the start of the last renewal that succeeded; others
//     take the lease no earlier than Duration after they saw that renewal.
//     Clocks of different machines are never compared: each replica measures,
//     on its own clock, for how long the lease stayed unchanged.
//   - Hand-off drains first. The lease is released after the function has
//     returned, and renewed until then. When the function reports that some of
//     its work could not be stopped (ErrNotDrained), the lease is left to
//     expire instead.
//   - Losing is not the end. When the lease was lost and the function has
//     returned, the elector campaigns again.
//   - Writes can be fenced. Fence says until when a write may start and by when
//     it must be over so that no successor can already be at work. A process
//     that is frozen between that check and the sending of the request, for
//     longer than what remains of the lease, can still write late; nothing on
//     the client's side can prevent that, which is why destructive requests
//     carry preconditions, too.
//
// One elector is one shard of work; several leases make several shards.
package lease
