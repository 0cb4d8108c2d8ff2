// Package lease decides, by coordination.k8s.io Leases, which replica works on
// what: all of it, by an Elector, or shards of it, by a Ring.
//
// An Elector campaigns for a Lease, calls a function while it holds it, renews
// it meanwhile, and gives it back. Its laws:
//
//   - At most one leads. The function's held context is cancelled no later than
//     RenewDeadline after the start of the last renewal that succeeded; others
//     take the lease no earlier than Duration after they saw that renewal.
//     Clocks of different machines are never compared: each replica measures,
//     on its own clock, for how long the lease stayed unchanged.
//   - Hand-off drains first. The lease is released after the function has
//     returned, and renewed until then. When the function reports that some of
//     its work could not be stopped (ErrNotDrained), the lease is left to
//     expire instead.
//   - Losing cuts short. When the lease is lost while the function drains, its
//     held context ends.
//   - Losing is not the end. When the lease was lost and the function has
//     returned, the elector campaigns again.
//   - Writes can be fenced. Fence says whether a write may start and by when it
//     must be over so that no successor can already be at work. A process that
//     is frozen between that check and the sending of the request, for longer
//     than what remains of the lease, can still write late; nothing on the
//     client's side can prevent that, which is why destructive requests carry
//     preconditions, too.
//
// A Ring has an elector for each of its shards, and one for a Lease that says
// that the process is a member. Its laws:
//
//   - At most one leads each shard, as said above, whatever the members think of
//     each other: what they compute decides only who campaigns.
//   - Who knows the same members computes the same: rendezvous hashing with an
//     even load. Members whose Lease expired do not count.
//   - A shard moves by hand-off. Who is to give it up drains and releases; who is
//     to get it takes it then, or when it expires.
//   - A process that cannot renew its membership gives up all shards.
//   - Members that count the shards differently do not work at a time: the
//     younger ones wait.
//
// # Concurrency and limits
//
// All methods may be called from any goroutine. An elector has two goroutines
// while it holds its lease, a ring one for each shard that it wants and two more;
// all are gone when Run returns. Each request has a deadline. A ring has at most
// MaxShards shards.
package lease
