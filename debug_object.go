package setpoint

import (
	"errors"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/telemetry/debug"
)

// debugOthers is how many reconciles of other objects a story tells of.
const debugOthers = 20

// serveObject answers with the story of the object that the query names.
func (m *Manager) serveObject(w http.ResponseWriter, req *http.Request) {
	query := req.URL.Query()
	kind, name := query.Get("kind"), query.Get("name")
	if kind == "" || name == "" {
		http.Error(w, "name an object: "+debug.PathObject+"?kind=Foo&namespace=default&name=website", http.StatusBadRequest)
		return
	}
	m.writeJSON(w, m.story(kind, Request{Cluster: query.Get("cluster"), Namespace: query.Get("namespace"), Name: name}))
}

// story tells all that is known of an object: nothing, when there is no such
// cluster. A namespace does not matter where the kind has none.
func (m *Manager) story(kind string, req Request) debug.Story {
	s := debug.Story{
		Instance: m.instance(), Kind: kind, Namespace: req.Namespace, Name: req.Name,
		Controllers: []debug.Chapter{}, Others: []debug.Reconcile{},
	}
	cl := m.Cluster(req.Cluster)
	if cl == nil {
		return s
	}
	for _, c := range m.declared() {
		if at := c.siteOf(cl.name); at != nil && m.names(kind, kindName(c.kind)) {
			s.Kind = kindName(c.kind)
			if at.isClusterScoped() {
				req.Namespace = ""
			}
			s.Controllers = append(s.Controllers, at.chapter(req))
		}
	}
	for _, k := range cl.cache.Kinds() {
		if m.names(kind, kindName(k.Kind)) {
			s.Kind = kindName(k.Kind)
			if _, exists := cl.cache.Peek(k.Kind, types.NamespacedName{Name: req.Name}); exists {
				req.Namespace = ""
			}
			if cl.cache.Covers(k.Kind, req.Namespace) {
				_, exists := cl.cache.Peek(k.Kind, req.Key())
				s.Exists = &exists
			}
		}
	}
	s.Namespace = req.Namespace
	s.Others = m.history.about(s.Kind, req.String(), debugOthers)
	return s
}

// isClusterScoped reports whether it is known that the controller's objects are in
// no namespace.
func (c *site) isClusterScoped() bool {
	select {
	case <-c.synced: // so the mapper knows the kind, and sends nothing
		mapping, err := c.cluster.mapper.RESTMapping(c.kind.GroupKind(), c.kind.Version)
		return err == nil && mapping.Scope.Name() == meta.RESTScopeNameRoot
	default:
		return false
	}
}

// names reports whether what somebody asks for is a kind, which is given as
// "Deployment.apps": by its kind, its resource in singular or plural, or a short
// form of either, with or without a group.
func (m *Manager) names(asked, kind string) bool {
	asked, kind = strings.ToLower(asked), strings.ToLower(kind)
	word, group, _ := strings.Cut(asked, ".")
	have, haveGroup, _ := strings.Cut(kind, ".")
	if group != "" && !strings.HasPrefix(haveGroup, group) {
		return false
	}
	return word == have || word == have+"s" || word == have+"es" || strings.HasSuffix(have, "y") && word == strings.TrimSuffix(have, "y")+"ies"
}

// chapter tells what the controller knows of an object.
func (c *site) chapter(req Request) debug.Chapter {
	shard := c.m.leads.shardOf(req)
	ch := debug.Chapter{
		Controller: c.name, Held: c.m.leads.holds(req), Shard: shard, Parked: c.takeover.keeps(req),
		Reconciles: c.m.history.of(c.name, req),
	}
	if err := errors.Join(c.waits(), c.stuck()); err != nil {
		ch.Problem = err.Error()
	}
	if c.m.elector != nil || c.m.ring != nil {
		ch.Holder = c.m.lease(shard).Holder
	}
	switch {
	case c.pause.closed():
		ch.Paused = "controller"
	case c.keyPaused(req):
		ch.Paused = "object"
	}
	ch.Now, ch.Next = c.standing(req)
	return ch
}

// standing says how an object runs or waits now, and what is planned apart from
// that.
func (c *site) standing(req Request) (now, next *debug.Item) {
	runs, waits := c.queue.Find(req)
	if waits != nil {
		item := waitingItem(*waits)
		next = &item
	}
	if runs == nil {
		return next, nil
	}
	item := debug.Item{Object: req.String(), State: "running", Since: &runs.Since, Causes: debugCauses(runs.Causes)}
	for _, info := range c.running.list() {
		if info.req == req {
			item = runningItem(info)
		}
	}
	return &item, next
}

// count returns the number of parked requests.
func (t *takeover) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.parked)
}

// keeps reports whether a request is parked.
func (t *takeover) keeps(r Request) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.parked[r]
	return ok
}

// note keeps a write for the history, or counts it when there are many.
func (info *reconcileInfo) note(w debug.Write) {
	info.mu.Lock()
	defer info.mu.Unlock()
	if len(info.sent) == historyWrites {
		info.unlisted++
		return
	}
	info.sent = append(info.sent, w)
}
