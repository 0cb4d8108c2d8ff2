// Package planetest gives a test a Kubernetes control plane in one line, and waits
// for what happens on it.
//
//	func TestOperator(t *testing.T) {
//		p := planetest.New(t)
//		planetest.Apply(t, p, "../config/crd")
//		// … start the operator with p.RESTConfig(), create an object …
//		planetest.Wait(t, p, deployment, func(d *appsv1.Deployment) bool {
//			return d.Status.ReadyReplicas == 3
//		})
//	}
//
// Laws:
//   - Each call of New is a plane of its own, ready, with all controllers and a node;
//     tests may run in parallel.
//   - Waiting watches; nothing is polled and nothing sleeps. A condition sees every
//     state that the watch delivers, first the present one, and is called on the
//     test's goroutine.
//   - A wait that fails says what it waited for, how long, and the last state it saw
//     as YAML with the latest Events about it, and ends the test.
//   - What the plane and its controllers log is shown when the test fails, and not
//     otherwise. klog, which is global to the process, is silenced.
package planetest
