package setpoint

import (
	"context"
	"io"
	"net/http"
)

// mortal is a transport whose requests end when its life does, for requests whose
// own contexts do not: those of discovery have none.
type mortal struct {
	life context.Context
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t mortal) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	stop := context.AfterFunc(t.life, func() { cancel(context.Cause(t.life)) })
	release := func() {
		stop()
		cancel(nil)
	}
	resp, err := t.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		release()
		return nil, err
	}
	resp.Body = &mortalBody{resp.Body, release}
	return resp, nil
}

// WrappedRoundTripper returns the transport that t sends with, for those who
// look for a particular one.
func (t mortal) WrappedRoundTripper() http.RoundTripper { return t.next }

// mortalBody lets go of its request when it is closed.
type mortalBody struct {
	io.ReadCloser
	release func()
}

func (b *mortalBody) Close() error {
	defer b.release()
	return b.ReadCloser.Close()
}
