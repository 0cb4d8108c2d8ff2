// Package expose is the operator that makes Services reachable from outside of the cluster, and tells where: the successor
// of exposecontroller. A Service asks for it by an annotation; it gets an Ingress, an HTTPRoute of the Gateway API, a node
// port or a load balancer, as the configuration says. Its URL is written back to the Service, and into ConfigMaps that ask
// for it. README.md lists what can be asked for.
//
// Its laws:
//
//   - Everything is a function of the present: of Services, ConfigMaps, Nodes and the configuration. A change of any of
//     them is applied; a missed or a repeated one makes no difference.
//   - An Ingress or HTTPRoute belongs to the operator when it carries the operator's mark for that very name and fields
//     that the operator's field manager wrote. Others are never changed or deleted. A name that is taken is reported, and
//     used as soon as it is free.
//   - Services may share an Ingress by its name: it has the rules of all of them, and each of them as an owner. Where two
//     want the same, the first by name has it, and the other is told.
//   - On Services and ConfigMaps the operator owns just the fields it applies. What it replaced, it remembers and puts
//     back; what it added, it takes away.
//   - The URL is written once what it leads to is there.
//   - Input that makes no sense is answered by an Event on the object that has it. What was made from the input before
//     stays as it is, and nothing else is affected.
//   - With nothing to do, nothing is written.
//
// Three controllers share the work, each keyed by what it writes: Services (with their HTTPRoute), Ingresses, ConfigMaps.
// They meet only in the objects. What to do is decided by pure functions: of a Service in plan.go, of an Ingress in
// ingress.go, of an HTTPRoute in httproute.go, of a ConfigMap in inject.go.
package expose
