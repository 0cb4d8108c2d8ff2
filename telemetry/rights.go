package telemetry

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// The bounds of what Rights remembers.
const (
	maxRights     = 2000 // different rights
	maxNamespaces = 16   // of one right; with more it is wanted in all
)

// Right is one that a request needs, as RBAC names it.
type Right struct {
	Verb     string // get, list, watch, create, update, patch, delete or deletecollection
	Group    string // empty: the core group
	Resource string // with a subresource as "pods/status"
}

// Use is how a right was used.
type Use struct {
	Right
	Requests int
	// Refused counts those that the API server answered with 403.
	Refused int
	// Namespaces are those of the requests, sorted; "" stands for requests to all
	// namespaces or to none. Many says that there are too many to remember.
	Namespaces []string
	Many       bool
}

// Rights remembers which rights the requests of a transport need. Requests for no
// resource, such as discovery, are not counted: every authenticated user may send
// them by the ClusterRole system:discovery.
type Rights struct {
	root string // of the API server's paths

	mu   sync.Mutex
	uses map[Right]*use
}

type use struct {
	requests, refused int
	namespaces        map[string]bool
	many              bool
}

// NewRights returns one for the API server at a host, which may be a URL whose
// path all requests begin with.
func NewRights(host string) *Rights {
	r := &Rights{uses: map[Right]*use{}}
	if u, err := url.Parse(host); err == nil && u.Host != "" {
		r.root = strings.TrimSuffix(u.Path, "/")
	}
	return r
}

// Wrap returns a transport that remembers what the requests that next sends need.
func (r *Rights) Wrap(next http.RoundTripper) http.RoundTripper {
	return &rightsTransport{rights: r, next: next}
}

type rightsTransport struct {
	rights *Rights
	next   http.RoundTripper
}

func (t *rightsTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(req)
	if right, namespace, ok := rightOf(req, t.rights.root); ok {
		t.rights.count(right, namespace, err == nil && resp.StatusCode == http.StatusForbidden)
	}
	return resp, err
}

// WrappedRoundTripper returns the transport that t sends with, for those who
// look for a particular one.
func (t *rightsTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

func (r *Rights) count(right Right, namespace string, refused bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	u := r.uses[right]
	if u == nil {
		if len(r.uses) >= maxRights {
			return
		}
		u = &use{namespaces: map[string]bool{}}
		r.uses[right] = u
	}
	u.requests++
	if refused {
		u.refused++
	}
	if u.many = u.many || len(u.namespaces) >= maxNamespaces && !u.namespaces[namespace]; !u.many {
		u.namespaces[namespace] = true
	}
}

// Uses returns the rights that were used, sorted by group, resource and verb.
func (r *Rights) Uses() []Use {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]Use, 0, len(r.uses))
	for right, u := range r.uses {
		found := Use{Right: right, Requests: u.requests, Refused: u.refused, Many: u.many}
		for namespace := range u.namespaces {
			found.Namespaces = append(found.Namespaces, namespace)
		}
		slices.Sort(found.Namespaces)
		all = append(all, found)
	}
	slices.SortFunc(all, func(a, b Use) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Verb, b.Verb))
	})
	return all
}

// rightOf returns the right that a request needs, and the namespace in which; not
// ok when it asks for no resource.
func rightOf(req *http.Request, root string) (right Right, namespace string, ok bool) {
	path, below := strings.CutPrefix(req.URL.Path, root+"/")
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case below && len(parts) >= 3 && parts[0] == "api":
		parts = parts[2:]
	case below && len(parts) >= 4 && parts[0] == "apis":
		right.Group, parts = parts[1], parts[3:]
	default:
		return Right{}, "", false
	}
	// "namespaces" is a resource itself when nothing but a name and one of its
	// own subresources follows.
	if parts[0] == "namespaces" && len(parts) >= 3 && !(right.Group == "" && len(parts) == 3 && (parts[2] == "status" || parts[2] == "finalize")) {
		namespace, parts = parts[1], parts[2:]
	}
	right.Resource = parts[0]
	named := len(parts) > 1
	if len(parts) > 2 {
		right.Resource += "/" + parts[2]
	}
	right.Verb = verbOf(req, named)
	return right, namespace, right.Verb != ""
}

// verbOf returns the verb of a request for a resource, by name or not.
func verbOf(req *http.Request, named bool) string {
	watch := req.URL.Query().Get("watch")
	switch req.Method {
	case http.MethodGet, http.MethodHead:
		switch {
		case watch == "true" || watch == "1":
			return "watch"
		case named:
			return "get"
		}
		return "list"
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		if named {
			return "delete"
		}
		return "deletecollection"
	}
	return ""
}
