package telemetry

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Checks are named checks that are served together, such as /readyz.
type Checks struct {
	name string

	mu     sync.Mutex
	checks []namedCheck
}

// Check says how something is: an error when it is not well, and else some
// detail, which may be empty.
type Check func() (detail string, err error)

type namedCheck struct {
	name  string
	check Check
}

// NewChecks returns an empty set that is well. The name is for its answers.
func NewChecks(name string) *Checks { return &Checks{name: name} }

// Add adds a check. Checks are answered in the order in which they were added.
func (c *Checks) Add(name string, check Check) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.checks = append(c.checks, namedCheck{name, check})
}

// ServeHTTP answers 200 when all checks pass and 503 when one does not. The
// body lists the checks when one fails or the query has "verbose"; each
// "exclude" in the query leaves a check out. A path below that of the set, as in
// /readyz/foo, answers for one check.
func (c *Checks) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	query := req.URL.Query()
	only := ""
	if _, below, ok := strings.Cut(strings.TrimPrefix(req.URL.Path, "/"), "/"); ok {
		only = strings.Trim(below, "/")
	}
	c.mu.Lock()
	checks := slices.Clone(c.checks)
	c.mu.Unlock()

	var body bytes.Buffer
	failed, found := false, only == ""
	for _, check := range checks {
		if only != "" && check.name != only || slices.Contains(query["exclude"], check.name) {
			continue
		}
		found = true
		detail, err := check.check()
		switch {
		case err != nil:
			failed = true
			fmt.Fprintf(&body, "[-]%s failed: %v\n", check.name, err)
		case detail != "":
			fmt.Fprintf(&body, "[+]%s ok: %s\n", check.name, detail)
		default:
			fmt.Fprintf(&body, "[+]%s ok\n", check.name)
		}
	}

	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	switch {
	case !found:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, "no check %q\n", only)
	case failed:
		fmt.Fprintf(&body, "%s check failed\n", c.name)
		w.WriteHeader(http.StatusServiceUnavailable)
		body.WriteTo(w)
	case query.Has("verbose"):
		fmt.Fprintf(&body, "%s check passed\n", c.name)
		body.WriteTo(w)
	default:
		fmt.Fprint(w, "ok")
	}
}
