// Package steps writes a reconcile as a list of steps that run in order, each of which may end it
// early.
//
//	func (r *reconciler) Reconcile(ctx context.Context, db *v1.Database) (setpoint.Result, error) {
//		return steps.Run(ctx, db,
//			steps.Finalizer(r.client, "example.com/database", r.dropBackups),
//			steps.Do("secret", r.secret),
//			steps.Do("config map", r.configMap),
//			steps.Do("stateful set", r.statefulSet),
//			steps.Do("service", r.service),
//			steps.Do("bootstrap", r.bootstrap), // steps.After(10*time.Second) until it is done
//			steps.Do("primary", r.primary),
//			steps.Last("status", r.status),
//		)
//	}
//
// # Laws
//
// Each run starts at the first step. A step must therefore be idempotent: it looks at what is, and
// does what is missing. Steps remember nothing between runs, so a restart of the process loses
// nothing.
//
// [Do] steps run only while the object lives. [Finalizer] steps add their finalizer while it
// lives, and clean up once it is being deleted, in the order in which they are declared; a
// finalizer cannot be added to an object that is being deleted, and never is. They must come
// before the first Do step, because a finalizer that comes after an effect may come too late to
// clean it up.
//
// [Last] steps run after all others, however those ended, so that the status tells of a run that
// stopped early. They do not run once the object is gone.
//
// A step that returns an error ends the run with that error, under the step's name. Steps run one
// after the other in the caller's goroutine; the package keeps no state.
package steps
