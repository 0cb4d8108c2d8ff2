package inproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/setpoint-dev/setpoint/plane/internal/drain"
)

// ErrClosed is what requests fail with once the server has been closed.
var ErrClosed = errors.New("the server in this process is not running")

// Server runs the handler for requests of this process until it is closed.
type Server struct {
	handler  http.Handler
	requests *drain.Requests
}

// NewServer serves handler to the transports it makes.
func NewServer(handler http.Handler) *Server {
	return &Server{handler: handler, requests: drain.New()}
}

// Close refuses new requests, ends those that do not end by themselves within a
// grace, and returns when all handlers have returned.
func (s *Server) Close() { s.requests.Close() }

// RoundTrip serves req as the user as, who may be nil for a request whose own
// credentials count.
func (s *Server) RoundTrip(req *http.Request, as user.Info) (*http.Response, error) {
	ctx, done, ok := s.requests.Begin(req.Context())
	if !ok {
		closeBody(req)
		return nil, fmt.Errorf("%s %s: %w", req.Method, req.URL, ErrClosed)
	}
	ctx, cancel := context.WithCancel(ctx) // when the client closes the body
	served := serverRequest(ctx, req, as)
	w := newResponse(ctx, cancel)
	go func() {
		defer done()
		defer closeBody(req)
		defer w.finish()
		s.handler.ServeHTTP(w, served)
	}()

	select {
	case <-w.started:
	case <-ctx.Done():
	}
	if err := req.Context().Err(); err != nil {
		cancel()
		return nil, err
	}
	select {
	case <-w.started:
		return w.response(req), nil
	default: // aborted, or ended by Close
		cancel()
		return nil, fmt.Errorf("%s %s: %w", req.Method, req.URL, s.failure())
	}
}

// failure says why a request got no answer although its client still wants one.
func (s *Server) failure() error {
	if s.requests.Ended() {
		return ErrClosed
	}
	return errors.New("the handler gave up without an answer")
}

// serverRequest turns a client's request into the one a server would have read.
func serverRequest(ctx context.Context, req *http.Request, as user.Info) *http.Request {
	if as != nil && req.Header.Get("Authorization") == "" {
		ctx = context.WithValue(ctx, userKey{}, as)
	}
	served := req.WithContext(ctx)
	served.Header = req.Header.Clone()
	if served.Header == nil {
		served.Header = http.Header{}
	}
	url := *req.URL
	served.URL = &url
	served.RequestURI = url.RequestURI()
	// Handlers of watches and of upgrades look at these.
	served.Proto, served.ProtoMajor, served.ProtoMinor = "HTTP/2.0", 2, 0
	served.RemoteAddr = "127.0.0.1:0"
	if served.Host == "" {
		served.Host = url.Host
	}
	if served.Body == nil {
		served.Body = http.NoBody
	}
	return served
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}

// Transport is the RoundTripper of one user.
type Transport struct {
	// Server takes the requests.
	Server func() *Server
	// User is whom requests without an Authorization header act as. Nil: nobody.
	User user.Info
}

// RoundTrip implements http.RoundTripper.
func (t Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	server := t.Server()
	if server == nil {
		closeBody(req)
		return nil, fmt.Errorf("%s %s: %w", req.Method, req.URL, ErrClosed)
	}
	return server.RoundTrip(req, t.User)
}

type userKey struct{}

// UserFrom is the user on whose behalf a request of this process acts.
func UserFrom(ctx context.Context) (user.Info, bool) {
	info, ok := ctx.Value(userKey{}).(user.Info)
	return info, ok
}

// response is the http.ResponseWriter of a handler and the client's body at once.
type response struct {
	body    *pipe
	ctx     context.Context
	cancel  context.CancelFunc
	started chan struct{}

	header http.Header // the handler's

	// Set before started is closed, read after.
	status int
	sent   http.Header
}

func newResponse(ctx context.Context, cancel context.CancelFunc) *response {
	return &response{
		body:    newPipe(ctx),
		ctx:     ctx,
		cancel:  cancel,
		started: make(chan struct{}),
		header:  http.Header{},
	}
}

// Header implements http.ResponseWriter.
func (r *response) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter. The first call counts.
func (r *response) WriteHeader(status int) {
	if r.sent != nil || status < 200 {
		return
	}
	r.status = status
	r.sent = maps.Clone(r.header)
	close(r.started)
}

// Write implements http.ResponseWriter.
func (r *response) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(p)
}

// Flush implements http.Flusher. The header is all that can still be held back.
func (r *response) Flush() { r.WriteHeader(http.StatusOK) }

// CloseNotify implements http.CloseNotifier, which upstream's response writers
// expect of every server although contexts have replaced it.
func (r *response) CloseNotify() <-chan bool {
	gone := make(chan bool, 1)
	context.AfterFunc(r.ctx, func() { gone <- true })
	return gone
}

// finish ends the response after the handler. A handler may abort by a panic; the
// client then sees a broken body or, before the header, a failed request.
func (r *response) finish() {
	failure := recover()
	if failure == nil && r.ctx.Err() == nil {
		r.WriteHeader(http.StatusOK)
		r.body.finish(io.EOF)
		return
	}
	r.body.finish(io.ErrUnexpectedEOF)
	if failure != nil && failure != http.ErrAbortHandler {
		panic(failure)
	}
}

func (r *response) response(req *http.Request) *http.Response {
	return &http.Response{
		Status:        fmt.Sprintf("%d %s", r.status, http.StatusText(r.status)),
		StatusCode:    r.status,
		Proto:         "HTTP/2.0",
		ProtoMajor:    2,
		Header:        r.sent,
		Body:          &clientBody{pipe: r.body, cancel: r.cancel},
		ContentLength: -1,
		Request:       req,
	}
}

// clientBody is the client's end of a response body.
type clientBody struct {
	*pipe
	cancel context.CancelFunc
}

// Close ends the request.
func (b *clientBody) Close() error {
	b.cancel()
	b.pipe.close()
	return nil
}
