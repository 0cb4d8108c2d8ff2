// Package setpoint runs Kubernetes controllers.
//
// A controller keeps the state of a cluster at a set point. It watches objects of
// one kind, its primary objects, and what else bears on them; for each object
// that may have something to do, a function is called that reads the present
// state and brings it closer to the desired one:
//
//	m, err := setpoint.NewManager(setpoint.Config{Logger: slog.Default()})
//	if err != nil {
//		return err
//	}
//	setpoint.For[*appsv1.Deployment](m, "labels").
//		Owns(&appsv1.ReplicaSet{}).
//		When(filter.GenerationChanged).
//		Workers(4).
//		Reconcile(func(ctx context.Context, d *appsv1.Deployment) (setpoint.Result, error) {
//			…
//			return setpoint.Result{}, m.Client().Apply(ctx, wanted)
//		})
//	return m.Run(ctx) // blocks; all mistakes in the declarations come back at once
//
// The way of a change:
//
//	API server ─list+watch→ cache ─change→ sources, filters ─key+cause→ queue ─key→ worker → Reconcile ─writes→ API server
//	                          ↑_________________ reads, private copies ________________________|
//
// # Laws
//
//  1. Level-driven. A reconciler gets a key, or the object of that key, and reads
//     the present. Missed, merged, doubled and reordered changes alter nothing but
//     timing.
//  2. One key, one worker. A key is never reconciled twice at once in a process; a
//     key that is added while it is being reconciled runs once more afterwards.
//  3. Nobody can corrupt the cache. Every read gives a private copy.
//  4. Nothing starts by itself. Reads of kinds that no controller declared go to
//     the server; only For, Owns, Watches, Reads and Cache.Watch start watches.
//  5. Reads see own writes, in every form of the object, within a bounded time.
//  6. No write without change. Applies and status writes that would change
//     nothing are not sent.
//  7. Destructive calls carry preconditions: the UID whenever it is known.
//  8. Owners match by UID. A child wakes the object that its controller reference
//     means, not another one of that name.
//  9. Errors back off, waiting does not. An error, and Requeue, are followed by a
//     back-off of the key that doubles from 5 ms up to 1000 s; success ends it.
//     RequeueAfter is a plan and leaves no back-off behind. A change runs at once
//     in any case. Terminal errors wait for one.
//  10. Nobody starves. What was found by listing runs after fresh changes, but
//     within a bound; namespaces share the workers fairly.
//  11. Never too early, never silently stuck. No reconcile starts before the
//     filters and map functions of all its controller's sources have seen the
//     first listing. A kind that is missing or forbidden stops its own controller
//     only, is named in /readyz and in the log, and heals when it arrives.
//  12. Every reconcile knows why. Its causes merge while the key waits; Causes
//     and the log show them. A reconciler that wakes itself by its own writes again
//     and again is reported.
//  13. Everything is bounded, and no bound ever drops a key.
//  14. Stopping is clean. When Run's context ends, no new reconcile starts and
//     running ones get their grace; then their context ends, the lease is
//     released, and no goroutine is left.
//
// # Concurrency
//
// Declarations are made by one goroutine before Run. Everything else may be used
// from any goroutine. Reconcilers of one controller are called by as many
// goroutines as it has Workers, each for another key; filters and map functions
// are called one at a time for each watched kind of each controller. With several
// clusters all this is so in each of them.
//
// # Leadership
//
// With Config.LeaderElection the controllers of one replica work at a time; with
// Config.Shards those of all, each on requests of its own. Every replica keeps
// its caches of everything, so that taking over needs no listing; its queues hold
// only what it may reconcile. When a replica loses a lease, the reconciles that
// need it are cancelled and awaited before it campaigns again, and their writes
// are refused from the moment on at which another replica might be at work; see
// package lease and docs/leadership.md.
//
// # Several clusters
//
// A manager works in the cluster of its Config, and with AddCluster and
// RemoveCluster in any number of others that come and go while it runs, on behalf of
// the controllers that are In them. Clusters share the declarations and the
// leadership, whose leases are in the manager's own cluster, and nothing else: each
// has its own cache, client and connections and, for each controller, its own queue
// and workers. The laws hold in each of them; one that is slow, gone or hanging
// costs the others nothing. See docs/clusters.md.
package setpoint
