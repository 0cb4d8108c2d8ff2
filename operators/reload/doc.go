// Package reload is the operator that rolls workloads when a ConfigMap or Secret that they use changes: Deployments,
// StatefulSets, DaemonSets, CronJobs, Jobs and Argo Rollouts that are annotated for it.
//
// Its laws:
//
//   - The present decides. On each workload the operator remembers, in the annotation State, a hash of each source that the
//     workload follows: of the content that its Pods were last rolled for. It rolls when what is there differs from what is
//     remembered. Restarts, fail-over, and missed, merged, late or repeated events change nothing of that.
//   - First sight is the baseline. A source that a workload begins to follow is remembered and rolls nothing; so nothing
//     rolls when the operator is installed.
//   - One write does it. The new stamp of the Pod template and what is remembered change together, provided that the
//     workload is still what was looked at. There is no moment at which a crash leads to two rollouts, or to none.
//   - A change that a stale cache may have made up is asked about at the server first: when a source's revision is older than
//     the remembered one, or when a source came or went. So a replica that takes over while its cache is behind does not roll
//     back and forth.
//   - Only what the operator itself remembered counts. A State that another manager wrote, such as one that was copied
//     with its object or brought back by an undone rollout, tells nothing of the Pods, and is replaced by a baseline.
//   - The operator owns two annotations by server-side apply, State on the workload and Stamp on its Pod template, and
//     spec.restartAt or spec.suspend where it restarts an Argo Rollout or a Job. It changes nothing else, and writes nothing
//     when there is nothing to do.
//   - Content stays at the server. The cache keeps a digest in place of a source's content, and a workload a hash of that
//     digest under a key that only the operator has: whoever may read workloads, but not Secrets, cannot try out what a
//     Secret contains. Events, logs, metrics and notifications have names only.
//   - A change costs as many writes as it has users: an index leads from a source to the workloads that follow it.
//   - Each kind of workloads has a controller of its own. One that is missing, forbidden or failing keeps no other waiting,
//     and neither does one workload that cannot be written.
//
// A deleted source rolls nothing unless that is asked for; what was there stays remembered, so that a source which comes
// back unchanged is no change. A source that comes into being rolls a workload when that is asked for, or when Pods of the
// workload may be running without it: all references of the Pod template to it are optional. Without one that is required
// no Pod starts, so there is nothing to roll for.
//
// What to do is decided by pure functions (policy.go, source.go, decide.go, jobs.go); reconcile.go and observe.go carry it
// out. Limits: 500 sources per workload, so that what is remembered fits into an annotation; 256 notifications that wait.
package reload
