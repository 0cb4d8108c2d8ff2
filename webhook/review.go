package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
)

// The limits of a request.
const (
	// maxAdmissionBody holds two objects of the largest size that API servers
	// take, as an update has them.
	maxAdmissionBody = 7 << 20
	// maxConversionBody bounds a batch: an API server sends a whole list at once.
	maxConversionBody = 128 << 20
	// maxTimeout is the longest that API servers wait.
	maxTimeout = 30 * time.Second
)

// failure is an error of the webhook itself, and the HTTP status that says so.
type failure struct {
	code int
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func failf(code int, format string, args ...any) error {
	return &failure{code, fmt.Errorf(format, args...)}
}

// panicKey is the context key of a func() to call when a handler panicked.
type panicKey struct{}

// review is the HTTP side of a webhook: it reads a body of at most limit bytes,
// has it answered within the deadline, and writes the answer as JSON.
type review struct {
	limit  int64
	answer func(ctx context.Context, body []byte) (any, error)
}

// ServeHTTP implements http.Handler.
func (r review) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	out, err := r.serve(w, req)
	if err != nil {
		code := http.StatusInternalServerError
		if f := (*failure)(nil); errors.As(err, &f) {
			code = f.code
		}
		logger(req.Context()).Error("webhook failed", "path", req.URL.Path, "code", code, "error", err)
		http.Error(w, err.Error(), code)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(out); err != nil {
		logger(req.Context()).Debug("answer not sent", "path", req.URL.Path, "error", err)
	}
}

func (r review) serve(w http.ResponseWriter, req *http.Request) (out []byte, err error) {
	body, err := r.read(w, req)
	if err != nil {
		return nil, err
	}
	timeout, err := timeoutOf(req)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(req.Context(), timeout)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			logger(ctx).Error("panic", "path", req.URL.Path, "panic", v, "stack", string(debug.Stack()))
			if count, ok := ctx.Value(panicKey{}).(func()); ok {
				count()
			}
			out, err = nil, failf(http.StatusInternalServerError, "panic: %v", v)
		}
	}()
	answer, err := r.answer(ctx, body)
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return nil, failf(http.StatusGatewayTimeout, "no answer within %v: %w", timeout, err)
		}
		return nil, err
	}
	if out, err = json.Marshal(answer); err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	return out, nil
}

func (r review) read(w http.ResponseWriter, req *http.Request) ([]byte, error) {
	if req.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, failf(http.StatusMethodNotAllowed, "method %s: a review is sent by POST", req.Method)
	}
	if content, _, err := mime.ParseMediaType(req.Header.Get("Content-Type")); err != nil || content != "application/json" {
		return nil, failf(http.StatusUnsupportedMediaType, "content type %q: a review is application/json", req.Header.Get("Content-Type"))
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, r.limit))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, failf(http.StatusRequestEntityTooLarge, "the review is larger than %d bytes", r.limit)
	}
	if err != nil {
		return nil, failf(http.StatusBadRequest, "read the review: %w", err)
	}
	return body, nil
}

// timeoutOf returns for how long the sender waits.
func timeoutOf(req *http.Request) (time.Duration, error) {
	text := req.URL.Query().Get("timeout")
	if text == "" {
		return maxTimeout, nil
	}
	timeout, err := time.ParseDuration(text)
	if err != nil || timeout <= 0 {
		return 0, failf(http.StatusBadRequest, "timeout=%q is not a positive duration", text)
	}
	return min(timeout, maxTimeout), nil
}

// logger returns the logger in ctx, where a Server puts one, or one that discards.
func logger(ctx context.Context) *slog.Logger {
	if l := logr.FromContextAsSlogLogger(ctx); l != nil {
		return l
	}
	return slog.New(slog.DiscardHandler)
}
