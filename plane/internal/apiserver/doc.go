// Package apiserver puts Kubernetes' API server together in one process: the server
// of the built-in groups, the one of CustomResourceDefinitions behind it and the
// aggregator before it, on our own storage.
//
// What kube-apiserver does around them is written here where it would bring etcd,
// flags, RSA keys, waits of a fixed length or goroutines that outlive the server;
// everything that decides what the API means is upstream's.
//
// Laws:
//   - One request passes one handler chain (handler.go), whatever server answers it.
//   - The store serves reads and watches itself; there is no watch cache.
//   - Informers have their first listing before a post-start hook runs, because
//     upstream's hooks look every 100 ms whether they have.
//   - The context of the hooks ends only after all of them are through: a hook that
//     fails ends the process.
package apiserver
