package main

import (
	"log/slog"
	"net/http"
	"time"
)

// requestLog logs the requests that pass through it, at level debug.
type requestLog struct {
	next   http.RoundTripper
	logger *slog.Logger
}

// logRequests wraps a transport; see rest.Config.Wrap.
func logRequests(logger *slog.Logger) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper { return requestLog{next, logger} }
}

// RoundTrip logs a request when its answer begins: that of a watch when it is open, not when it ends.
func (l requestLog) RoundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	response, err := l.next.RoundTrip(r)
	result := slog.Any("error", err)
	if err == nil {
		result = slog.Int("status", response.StatusCode)
	}
	l.logger.Debug("request", "userAgent", r.UserAgent(), "method", r.Method, "path", r.URL.RequestURI(), result, "took", time.Since(began))
	return response, err
}
