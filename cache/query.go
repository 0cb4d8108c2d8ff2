package cache

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/setpoint-dev/setpoint/internal/mvcc"
)

// query selects objects of a store. It takes the smallest set that an index offers for one of its requirements,
// and then checks every requirement on each of its objects.
type query struct {
	store     *store
	namespace string
	name      string // "" for any
	labels    []labels.Requirement
	indexed   []indexedField
	scanned   []fields.Requirement // on fields without an index
	nothing   bool                 // the requirements exclude each other
}

// indexedField is a requirement on the i-th field index.
type indexedField struct {
	index int
	equal bool
	value string
}

func newQuery(s *store, o ListOptions) (*query, error) {
	q := &query{store: s, namespace: o.Namespace}
	if o.Labels != nil {
		requirements, selectable := o.Labels.Requirements()
		q.labels, q.nothing = requirements, !selectable
	}
	if o.Fields == nil {
		return q, nil
	}
	for _, r := range o.Fields.Requirements() {
		equal := r.Operator != selection.NotEquals
		if !equal && r.Operator == "" {
			return nil, fmt.Errorf("field %q: unknown operator %q", r.Field, r.Operator)
		}
		i := slices.IndexFunc(s.indexes, func(x fieldIndex) bool { return x.name == r.Field })
		switch {
		case i >= 0:
			q.indexed = append(q.indexed, indexedField{index: i, equal: equal, value: r.Value})
		case r.Field == "metadata.name" && equal:
			q.nothing = q.nothing || q.name != "" && q.name != r.Value
			q.name = r.Value
		case r.Field == "metadata.namespace" && equal:
			q.nothing = q.nothing || q.namespace != "" && q.namespace != r.Value
			q.namespace = r.Value
		default:
			q.scanned = append(q.scanned, r)
		}
	}
	return q, nil
}

// run returns the selected objects, sorted by key, and the revision they are of.
func (q *query) run() ([]*object, string, error) {
	if q.nothing {
		_, version := q.store.present()
		return nil, version, nil
	}
	objects, version := q.candidates()
	selected := objects[:0]
	for _, o := range objects {
		ok, err := q.matches(o)
		if err != nil {
			return nil, "", err
		}
		if ok {
			selected = append(selected, o)
		}
	}
	return selected, version, nil
}

// candidates returns a sorted superset of what is selected.
func (q *query) candidates() ([]*object, string) {
	s := q.store
	s.mu.RLock()
	snapshot, version := s.table.Snapshot(), s.version()
	best, found := q.smallest()
	if found && best.size() < snapshot.Count(namespaceRange(q.namespace)) {
		objects := best.objects(s.slots)
		s.mu.RUnlock()
		slices.SortFunc(objects, func(a, b *object) int { return strings.Compare(a.key, b.key) })
		if len(best) > 1 { // an object may have several values
			objects = slices.Compact(objects)
		}
		return objects, version
	}
	s.mu.RUnlock()
	if len(q.scanned) > 0 || !found && len(q.labels)+len(q.indexed) > 0 {
		s.stats.scanned()
	}
	return q.inNamespace(snapshot), version
}

// inNamespace returns the objects of the namespace, or the one object when its key is known.
func (q *query) inNamespace(snapshot mvcc.Snapshot[*object]) []*object {
	if q.name != "" && q.namespace != "" {
		if o, _, ok := snapshot.Get(q.namespace + "/" + q.name); ok {
			return []*object{o}
		}
		return nil
	}
	from, to := namespaceRange(q.namespace)
	objects := make([]*object, 0, snapshot.Count(from, to))
	for e := range snapshot.Range(from, to) {
		objects = append(objects, e.Value)
	}
	return objects
}

// sets are postings whose union holds all objects that meet a requirement.
type sets []*postings

func (ps sets) size() (n int) {
	for _, p := range ps {
		n += p.count
	}
	return n
}

func (ps sets) objects(slots []*object) []*object {
	objects := make([]*object, 0, ps.size())
	for _, p := range ps {
		for slot := range p.all() {
			objects = append(objects, slots[slot])
		}
	}
	return objects
}

// smallest returns the smallest set that an index offers; store.mu is held.
func (q *query) smallest() (best sets, found bool) {
	offer := func(offered sets) {
		if !found || offered.size() < best.size() {
			best, found = offered, true
		}
	}
	for _, r := range q.labels {
		values := q.store.labels[r.Key()]
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			offer(values.of(r.ValuesUnsorted()...))
		case selection.Exists, selection.GreaterThan, selection.LessThan:
			var all sets
			for _, p := range values {
				all = append(all, p)
			}
			offer(all)
		}
	}
	for _, r := range q.indexed {
		if r.equal {
			offer(q.store.fields[r.index].of(r.value))
		}
	}
	return best, found
}

// of returns the postings of some values.
func (x valueIndex) of(values ...string) sets {
	var ps sets
	for _, v := range values {
		if p := x[v]; p != nil {
			ps = append(ps, p)
		}
	}
	return ps
}

// matches checks every requirement.
func (q *query) matches(o *object) (bool, error) {
	if q.name != "" || q.namespace != "" {
		key := o.name()
		if q.name != "" && key.Name != q.name || q.namespace != "" && key.Namespace != q.namespace {
			return false, nil
		}
	}
	for i := range q.labels {
		if !q.labels[i].Matches(o) {
			return false, nil
		}
	}
	for _, r := range q.indexed {
		if slices.Contains(o.fieldValues(r.index), r.value) != r.equal {
			return false, nil
		}
	}
	if len(q.scanned) == 0 {
		return true, nil
	}
	return q.matchesFields(o)
}

// matchesFields looks fields without an index up in the decoded object.
func (q *query) matchesFields(o *object) (bool, error) {
	var tree unstructured.Unstructured
	if err := q.store.form.decode(o, &tree); err != nil {
		return false, err
	}
	for _, r := range q.scanned {
		if (fieldValue(tree.Object, r.Field) == r.Value) != (r.Operator != selection.NotEquals) {
			return false, nil
		}
	}
	return true, nil
}

// fieldValue returns the value at a dotted path as a field selector compares it: a missing one is "".
func fieldValue(tree map[string]any, path string) string {
	var at any = tree
	for name := range strings.SplitSeq(path, ".") {
		m, ok := at.(map[string]any)
		if !ok {
			return ""
		}
		at = m[name]
	}
	switch at.(type) {
	case nil, map[string]any, []any:
		return ""
	}
	return fmt.Sprint(at)
}

// present returns the content and its revision.
func (s *store) present() (mvcc.Snapshot[*object], string) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.table.Snapshot(), s.version()
}

// version is the revision up to which all scopes have seen everything; mu is held.
func (s *store) version() (oldest string) {
	for _, sc := range s.scopes {
		if sc.version != "" && (oldest == "" || newer(oldest, sc.version)) {
			oldest = sc.version
		}
	}
	return oldest
}

// namespaceRange is the part of a table that holds a namespace's objects.
func namespaceRange(namespace string) (from, to string) {
	if namespace == "" {
		return "", ""
	}
	return namespace + "/", mvcc.PrefixEnd(namespace + "/")
}
