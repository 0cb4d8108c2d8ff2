package setpoint

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/cache"
	"github.com/setpoint-dev/setpoint/telemetry"
)

// Roles returns, as YAML, the ClusterRole and the Roles that the program needs:
// what its requests were seen to need, what its declarations will need although it
// was not seen yet (comments mark that), and what finalizers need at the end of an
// object, which is never dropped. A path of the program that has not run, such as
// one that deletes, may need more; comments say where that is likely.
//
// They are those in the manager's own cluster; what is done in added ones is left
// out.
//
// Rights are in a ClusterRole where a controller watches all namespaces, and
// otherwise in a Role for each namespace. Those to Leases are always in a Role,
// limited to the names that the configuration fixes.
func (m *Manager) Roles() string {
	var g grants
	g.everywhere = m.watchesEverywhere()
	m.grantDeclared(&g)
	m.grantLeases(&g)
	for _, u := range m.rights.Uses() {
		m.grantUsed(&g, u)
	}
	return g.yaml(m.cfg.FieldOwner)
}

func (m *Manager) serveRoles(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	if _, err := fmt.Fprint(w, m.Roles()); err != nil {
		m.log.Debug("roles not sent", "error", err)
	}
}

// cacheOptions are those of a kind.
func (m *Manager) cacheOptions(kind schema.GroupKind) cache.Options {
	if o, ok := m.cfg.Kinds[kind]; ok {
		return o
	}
	return m.cfg.DefaultCache
}

// watchesEverywhere reports whether a controller's objects may be in any
// namespace.
func (m *Manager) watchesEverywhere() bool {
	return slices.ContainsFunc(m.declared(), func(c *Controller) bool {
		return len(m.cacheOptions(c.kind.GroupKind()).Namespaces) == 0
	})
}

// grantDeclared grants what the controllers' declarations need.
func (m *Manager) grantDeclared(g *grants) {
	for _, c := range m.declared() {
		for _, s := range c.sources {
			if !c.watchesIn("", s) {
				continue
			}
			resource, namespaces, ok := m.scopeOf(g, s.kind, s.String()+" of controller "+c.name)
			if !ok {
				continue
			}
			for _, verb := range []string{"get", "list", "watch"} { // get: for when the cache is behind
				g.add(grant{Right: telemetry.Right{Verb: verb, Group: s.kind.Group, Resource: resource}, declared: s.String()}, namespaces)
			}
			if s.name == "For" {
				m.grantFinalizers(g, c, resource, namespaces)
			}
		}
	}
	if m.home.records.Load() {
		for _, verb := range []string{"create", "patch"} {
			g.add(grant{Right: telemetry.Right{Verb: verb, Group: "events.k8s.io", Resource: "events"}, declared: "Events"}, m.cfg.DefaultCache.Namespaces)
		}
	}
	if m.cfg.MetricsAccess.Guards(m.cfg.MetricsAddress) {
		g.add(grant{Right: telemetry.Right{Verb: "create", Group: "authentication.k8s.io", Resource: "tokenreviews"}, declared: "guard of the metrics"}, nil)
		g.add(grant{Right: telemetry.Right{Verb: "create", Group: "authorization.k8s.io", Resource: "subjectaccessreviews"}, declared: "guard of the metrics"}, nil)
	}
}

// scopeOf returns the resource of a kind and the namespaces in which it is
// watched, none for all.
func (m *Manager) scopeOf(g *grants, kind schema.GroupVersionKind, what string) (string, []string, bool) {
	mapping, err := m.home.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		g.notes = append(g.notes, fmt.Sprintf("%s: left out, its resource is not known yet", what))
		return "", nil, false
	}
	var namespaces []string
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		namespaces = m.cacheOptions(kind.GroupKind()).Namespaces
	}
	return mapping.Resource.Resource, namespaces, true
}

// grantFinalizers grants what is needed to let go of an object whose finalizers
// were put there earlier, maybe by another process, and to be named as the owner of
// others where a server demands a right for that.
func (m *Manager) grantFinalizers(g *grants, c *Controller, resource string, namespaces []string) {
	if m.hasFinalizers(c.kind) {
		g.add(grant{Right: telemetry.Right{Verb: "patch", Group: c.kind.Group, Resource: resource}, declared: "finalizers"}, namespaces)
	}
	if slices.ContainsFunc(c.sources, func(s *source) bool { return s.name == "Owns" }) {
		g.add(grant{Right: telemetry.Right{Verb: "update", Group: c.kind.Group, Resource: resource + "/finalizers"}, declared: "owner references"}, namespaces)
	}
}

// hasFinalizers reports whether any cached object of a kind has a finalizer that
// is not Kubernetes' own.
func (m *Manager) hasFinalizers(kind schema.GroupVersionKind) bool {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // what is not there yet is not waited for
	var list metav1.PartialObjectMetadataList
	if m.home.cache.List(ctx, kind, cache.ListOptions{}, &list) != nil {
		return false
	}
	return slices.ContainsFunc(list.Items, func(o metav1.PartialObjectMetadata) bool {
		return slices.ContainsFunc(o.Finalizers, func(name string) bool { return strings.Contains(name, "/") })
	})
}

// grantLeases grants what election and shards need.
func (m *Manager) grantLeases(g *grants) {
	leases := telemetry.Right{Group: "coordination.k8s.io", Resource: "leases"}
	give := func(namespace, name string, verbs ...string) {
		for _, verb := range verbs {
			gr := grant{Right: leases, declared: "leader election"}
			gr.Verb = verb
			if name != "" && verb != "create" { // which cannot be limited to a name
				gr.names = []string{name}
			}
			g.add(gr, []string{namespace})
		}
	}
	switch {
	case m.cfg.LeaderElection != nil:
		g.leases = m.cfg.LeaderElection.Namespace
		give(g.leases, m.cfg.LeaderElection.Name, "get", "create", "update")
	case m.cfg.Shards != nil:
		g.leases = m.cfg.Shards.Lease.Namespace
		give(g.leases, "", "get", "list", "create", "update", "delete")
	}
}

// grantUsed grants what a request was seen to need.
func (m *Manager) grantUsed(g *grants, u telemetry.Use) {
	gr := grant{Right: u.Right, seen: u.Requests, refused: u.Refused}
	switch {
	case g.isLeaderElection(u):
		if m.cfg.LeaderElection != nil && u.Verb != "create" {
			gr.names = []string{m.cfg.LeaderElection.Name}
		}
		g.add(gr, u.Namespaces)
	case g.everywhere || u.Many || slices.Contains(u.Namespaces, ""):
		g.add(gr, nil)
	default:
		g.add(gr, u.Namespaces)
	}
}

// grant is a right and why it is needed.
type grant struct {
	telemetry.Right
	names         []string // of the objects; none for all
	declared      string   // by what it was declared
	seen, refused int      // requests
}

// grants are rights by namespace: "" for a ClusterRole.
type grants struct {
	everywhere bool
	leases     string // the namespace of the leader election's
	byScope    map[string][]grant
	notes      []string
}

func (g *grants) isLeaderElection(u telemetry.Use) bool {
	return g.leases != "" && u.Group == "coordination.k8s.io" && u.Resource == "leases" && !u.Many && slices.Equal(u.Namespaces, []string{g.leases})
}

// add grants a right in namespaces, or in all when there are none.
func (g *grants) add(gr grant, namespaces []string) {
	if g.byScope == nil {
		g.byScope = map[string][]grant{}
	}
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	for _, namespace := range namespaces {
		have := g.byScope[namespace]
		i := slices.IndexFunc(have, func(other grant) bool { return other.Right == gr.Right && slices.Equal(other.names, gr.names) })
		if i < 0 {
			g.byScope[namespace] = append(have, gr)
			continue
		}
		have[i].seen += gr.seen
		have[i].refused += gr.refused
		have[i].declared = cmp.Or(have[i].declared, gr.declared)
	}
}
