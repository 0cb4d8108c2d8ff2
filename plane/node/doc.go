// Package node plays the nodes of a cluster and its scheduler: Pods are assigned,
// get an address, become Running and Ready, succeed, crash, are evicted and
// stopped, and no container runs anywhere. What a kubelet would report is in their
// status, so that controllers, and those who test them, see a cluster at work.
//
// # Decisions
//
// All that is decided is decided by functions without side effects: advance takes
// a Pod through every step of its life that is due at some time and says when the
// next one is; choose picks the node of a Pod. Around them, the agent and the
// scheduler read from shared informers and write to the API.
//
// # Laws
//
//   - The present decides. A Pod's next status follows from its spec, its status,
//     its annotations and the time; nothing depends on which events were seen. Only
//     fractions of seconds are kept in memory, and a restarted plane goes on without
//     them.
//   - Steps that are due together are written together. A Pod without delays takes
//     two writes from its creation to Ready, its binding and its status.
//   - A status is written with the resourceVersion it was derived from. Losing that
//     race costs nothing: the newer Pod is on its way.
//   - A deleted Pod gets its final status first and is then deleted with its UID.
//   - There is no goroutine per Pod or per node: four workers each for the agent and
//     the scheduler, one for heartbeats, one for Events.
//   - Events are for people. Ordinary ones are limited to 50 a second, at most 1000
//     wait, and what is beyond is dropped.
//   - Conditions of others, such as those of readiness gates, are left alone.
//
// # Scripts
//
// Annotations of a Pod under node.setpoint.dev/ script its life, also while it
// runs: schedule, start, ready, run and stop set the times of its steps, exit-code
// lets containers end and so crash or fail, image-pull=fail keeps them from
// starting, evict=true evicts the Pod, containers restricts the others to some
// containers. See the constants for each.
//
// # Limits
//
// The scheduler is good enough for controllers under test: node selectors, required
// node affinity, taints, requests, unbound claims and scheduling gates count, the
// node with the fewest Pods wins. Affinity between Pods, topology spread, preferred
// affinity, priorities and preemption do not count. Probes are not run: readiness
// follows from the ready delay.
package node
