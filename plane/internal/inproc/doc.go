// Package inproc carries HTTP requests to a handler of the same process without a
// socket: a RoundTripper on the client's side, ordinary http.Handler semantics on
// the server's side.
//
// Laws:
//   - The response arrives when the handler writes its header, its body streams
//     while the handler writes, and request and response bodies flow at the same
//     time. Writes take effect at once, so Flush has nothing to do.
//   - A handler that writes faster than the client reads blocks when maxBuffered
//     bytes wait; it goes on when they are read, and its writes fail when the body
//     is closed or the request cancelled.
//   - The handler's context ends with the request's context, with the closing of
//     the response body and, after a short grace, with the server. Each request costs
//     one goroutine, which ends when the handler returns; Close waits for all of them.
//   - A request without an Authorization header acts as the transport's user; the
//     server reads him from the context. A request from outside of the process can
//     never carry such a context.
package inproc
