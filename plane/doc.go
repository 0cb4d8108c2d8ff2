// Package plane is a Kubernetes control plane inside this process.
//
// The API is served by Kubernetes' own code: the registries, admission plugins
// and authorizers of kube-apiserver, the server of CustomResourceDefinitions and
// the aggregator, on the in-memory store of plane/store. Upstream's controllers
// and fake nodes run beside it, so that a Deployment becomes Available, a deleted
// namespace goes away and owned objects are garbage collected.
//
//	p, err := plane.New(plane.Config{})
//	err = p.Start(ctx)
//	client, err := kubernetes.NewForConfig(p.RESTConfig())
//	defer p.Stop()
//
// # Laws
//
// Ready. Start returns when the plane can be used: the system namespaces and the
// bootstrap RBAC policy exist, every built-in group is in discovery and in OpenAPI,
// admission is in force, the nodes are Ready. Nothing has to be polled afterwards.
//
// Side by side. Planes of one process share nothing but what upstream keeps global:
// the scheme of the built-in types, feature gates, the metrics registry, klog.
//
// Stopping. Stop ends watches, controllers and listeners and returns when the
// goroutines of this plane are gone, within 100 ms under normal load. What then
// remains of the process's goroutines belongs to packages of upstream.
//
// Identity. A request through RESTConfig acts as a member of system:masters,
// unless it brings credentials of its own; impersonation works as on any cluster.
// A request over TLS is whoever its client certificate or bearer token says. The
// certificate authority, its keys and the key that signs ServiceAccount tokens are
// made for this plane and are never written anywhere but to Kubeconfig.
//
// No sockets. Without Config.Listen nothing between a client and the store leaves
// the process: no socket, no file, no system call. With it, one TLS listener
// serves the same handler.
//
// Determinism. All goroutines, channels and timers are made under Start, so a
// plane can run inside of a testing/synctest bubble. The listener cannot.
package plane
