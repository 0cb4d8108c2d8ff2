package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Request describes one request to the server, for a [Gate].
type Request struct {
	// Verb is the verb of the Kubernetes API, as RBAC names it: get, list, create, update, patch,
	// delete or deletecollection. Apply is a patch.
	Verb string
	// Resource is the resource of the path, and Subresource its subresource or empty.
	Resource    schema.GroupVersionResource
	Subresource string
	// Namespace is empty for cluster-scoped resources and for all namespaces. Name is empty for
	// collections and for a create whose name the server makes; GenerateName is what that begins with.
	Namespace, Name, GenerateName string
	// DryRun says that the server will not store the write.
	DryRun bool
}

// Write reports whether the request changes something at the server.
func (r Request) Write() bool {
	return r.Verb != "get" && r.Verb != "list" && !r.DryRun
}

// Gate is called with every request of a Client at the point where it leaves, but not with the
// discovery requests of its mapper. It calls send at most once, with ctx or a context derived from
// it, and returns what send returned. Not calling send refuses the request: the Gate then returns
// an error, or [ErrNotSent] to make a write return nil although nothing was done.
type Gate func(ctx context.Context, r Request, send func(context.Context) error) error

// ErrNotSent is returned by a [Gate] that keeps a write from being sent but wants the caller to go
// on as if it had been.
var ErrNotSent = errors.New("request not sent")

// call is a request with all that is needed to send it.
type call struct {
	Request
	params      url.Values
	accept      string
	contentType string
	body        []byte
}

// answer is what the server said to a call. It is of use also beside an error.
type answer struct {
	sent        bool // the request may have reached the server
	contentType string
	body        []byte
}

// send sends the call to the target's path, through the gate.
func (c *Client) send(ctx context.Context, t target, in call) (answer, error) {
	in.Resource = t.mapping.Resource
	in.Namespace, in.Name = t.key.Namespace, t.key.Name
	var out answer
	err := c.gate(ctx, in.Request, func(ctx context.Context) error {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		out.sent = true
		return c.roundTrip(ctx, t, in, &out)
	})
	return out, err
}

func (c *Client) roundTrip(ctx context.Context, t target, in call, out *answer) error {
	request := c.rest.Verb(methodOf(in.Verb)).
		AbsPath(rootOf(in.Resource.GroupVersion())...).
		NamespaceIfScoped(in.Namespace, t.namespaced() && in.Namespace != "").
		Resource(in.Resource.Resource).
		SetHeader("Accept", in.accept)
	if in.Name != "" && (in.Verb != "create" || in.Subresource != "") {
		request.Name(in.Name)
	}
	if in.Subresource != "" {
		request.SubResource(in.Subresource)
	}
	for name, values := range in.params {
		for _, value := range values {
			request.Param(name, value)
		}
	}
	if in.body != nil {
		request.SetHeader("Content-Type", in.contentType).Body(in.body)
	}
	result := request.Do(ctx).ContentType(&out.contentType)
	if err := result.Error(); err != nil {
		return err
	}
	var err error
	out.body, err = result.Raw()
	return err
}

// methodOf is the HTTP method of a verb.
func methodOf(verb string) string {
	switch verb {
	case "create":
		return http.MethodPost
	case "update":
		return http.MethodPut
	case "patch":
		return http.MethodPatch
	case "delete", "deletecollection":
		return http.MethodDelete
	}
	return http.MethodGet
}

// rootOf is the path of an API group's version.
func rootOf(gv schema.GroupVersion) []string {
	if gv.Group == "" {
		return []string{"api", gv.Version}
	}
	return []string{"apis", gv.Group, gv.Version}
}

// openGate is the Gate of a client that has none.
func openGate(ctx context.Context, _ Request, send func(context.Context) error) error {
	return send(ctx)
}
