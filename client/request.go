package client

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Request describes one request to the server, for a [Gate].
type Request struct {
	// Verb is the verb of the Kubernetes API, as RBAC names it: get, list, create,
	// update, patch, delete or deletecollection. Apply is a patch.
	Verb string
	// Resource is the resource of the path, and Subresource its subresource or empty.
	Resource    schema.GroupVersionResource
	Subresource string
	// Namespace is empty for cluster-scoped resources and for all namespaces. Name is
	// empty for collections and for a create.
	Namespace, Name string
	// DryRun says that the server will not store the write.
	DryRun bool
}

// Write reports whether the request changes something at the server.
func (r Request) Write() bool {
	return r.Verb != "get" && r.Verb != "list" && !r.DryRun
}

// Gate is called with every request at the point where it leaves the client.
// It calls send at most once, with ctx or a context derived from it, and returns what
// send returned. Not calling send refuses the request: the Gate
// then returns an error, or [ErrNotSent] to make a write return nil although nothing was done.
type Gate func(ctx context.Context, r Request, send func(context.Context) error) error
