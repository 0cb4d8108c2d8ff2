package operate

import (
	"bytes"
	"net/http"

	"github.com/setpoint-dev/setpoint"
)

// healthOf answers /healthz and /readyz for all managers together: well when all are.
func healthOf(managers []*setpoint.Manager) http.Handler {
	mux := http.NewServeMux()
	ask := func(w http.ResponseWriter, req *http.Request) {
		status := http.StatusNotFound
		var body bytes.Buffer
		for _, m := range managers {
			a := &answer{header: http.Header{}, status: http.StatusOK}
			m.Handler().ServeHTTP(a, req)
			if a.status == http.StatusNotFound {
				continue // another manager's check was asked for
			}
			if status != http.StatusServiceUnavailable {
				status = a.status
			}
			body.Write(bytes.TrimSuffix(a.body.Bytes(), []byte("\n")))
			body.WriteByte('\n')
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(status)
		body.WriteTo(w)
	}
	for _, path := range []string{"/healthz", "/healthz/", "/readyz", "/readyz/"} {
		mux.HandleFunc(path, ask)
	}
	return mux
}

// answer is what one manager says.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) { a.status = status }

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }
