// Package catalog lists the operators that ship with Setpoint, makes managers that run them, and the manifests that
// install them.
//
// Its laws:
//
//   - All returns operators with options of their own each time: two that are run in one process share nothing.
//   - Each operator has a ServiceAccount, roles, a lease and a field manager of one name, "setpoint-NAME", so that several
//     may run beside each other and beside anything else.
//   - An operator's rights are those that its RBAC lists and no more; what Manifests adds is said there.
package catalog
