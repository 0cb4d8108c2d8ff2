package cache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/filter"
	"github.com/setpoint-dev/setpoint/internal/mvcc"
)

var namespaceKind = corev1.SchemeGroupVersion.WithKind("Namespace")

// namespaces are those that a store covers. The zero value is all.
type namespaces struct {
	limited bool
	unknown bool     // they are selected by label, and not all listed yet
	names   []string // sorted
}

func (n namespaces) has(name string) bool {
	_, found := slices.BinarySearch(n.names, name)
	return !n.limited || found
}

func sortedNames(names []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

// SetNamespaces limits a namespaced kind to other namespaces than its options say, before it is watched or
// while it is: an empty set holds no namespace. Watches begin and end accordingly. Objects of a namespace that
// is left are dropped, which subscribers see as their deletion; those of one that is entered arrive as added,
// and reads of it wait for its first listing. Kinds without namespaces are not affected.
//
// It fails for a kind whose namespaces are selected by label. Objects that a subscriber sees deleted may still
// exist: it should ask the server before it draws a conclusion that cannot be undone.
func (c *Cache) SetNamespaces(gvk schema.GroupVersionKind, names ...string) error {
	if c.options(gvk).NamespaceSelector != nil {
		return fmt.Errorf("cache: set the namespaces of %s: its options select them by label", gvk.GroupKind())
	}
	if slices.Contains(names, "") {
		return fmt.Errorf("cache: set the namespaces of %s: one has no name", gvk.GroupKind())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.kind(gvk)
	k.namespaces = &namespaces{limited: true, names: sortedNames(names)}
	if k.store != nil && c.state != stopped {
		k.store.setNamespaces(*k.namespaces)
	}
	return nil
}

// namespacesOf says which namespaces a new store covers; mu is held.
func (c *Cache) namespacesOf(k *kind, o Options) namespaces {
	switch {
	case k.namespaces != nil:
		return *k.namespaces
	case o.NamespaceSelector != nil:
		return namespaces{limited: true, unknown: true}
	}
	return namespaces{limited: len(o.Namespaces) > 0, names: o.Namespaces}
}

func (o Options) validate() error {
	if len(o.Namespaces) > 0 && o.NamespaceSelector != nil {
		return errors.New("options Namespaces and NamespaceSelector exclude each other")
	}
	return nil
}

func (s *store) setNamespaces(n namespaces) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.namespaces = n
	s.follow()
}

// namespaceChanged takes note of a namespace that came, went or changed its labels.
func (s *store) namespaceChanged(selector labels.Selector, change filter.Change) {
	meta := change.Latest().Meta()
	selected := change.New != nil && selector.Matches(labels.Set(meta.Labels))
	s.mu.Lock()
	defer s.mu.Unlock()
	names := slices.Clone(s.namespaces.names)
	i, found := slices.BinarySearch(names, meta.Name)
	switch {
	case selected == found:
		return
	case selected:
		names = slices.Insert(names, i, meta.Name)
	default:
		names = slices.Delete(names, i, i+1)
	}
	s.namespaces.names = names
	s.follow()
}

// awaitNamespaces waits until all namespaces have been seen.
func (s *store) awaitNamespaces(ctx context.Context) {
	select {
	case <-s.selected.Synced():
		s.mu.Lock()
		defer s.mu.Unlock()
		s.namespaces.unknown = false
		s.follow()
	case <-ctx.Done():
	}
}

// follow makes the scopes those of the covered namespaces, and drops what lies outside; mu is held. It does
// nothing until the store has been started and its resource is known.
func (s *store) follow() {
	if s.ctx == nil || s.mapping == nil {
		return
	}
	want := s.namespaces
	if s.isClusterScoped() || !want.limited {
		want.names = []string{""}
	}
	if want.unknown {
		return
	}
	s.scopes = slices.DeleteFunc(s.scopes, func(sc *scope) bool {
		if slices.Contains(want.names, sc.namespace) {
			return false
		}
		sc.left = true
		sc.stop()
		s.drop(sc, want)
		return true
	})
	for _, ns := range want.names {
		if slices.ContainsFunc(s.scopes, func(sc *scope) bool { return sc.namespace == ns }) {
			continue
		}
		sc := newScope(s.cache, s, ns)
		ctx, stop := context.WithCancel(s.ctx)
		sc.stop = stop
		s.scopes = append(s.scopes, sc)
		s.run(func(context.Context) { sc.run(ctx) })
	}
	slices.SortFunc(s.scopes, func(a, b *scope) int { return strings.Compare(a.namespace, b.namespace) })
	s.settle()
	s.wake()
}

// drop deletes the objects of a scope that no other will show; mu is held.
func (s *store) drop(sc *scope, want namespaces) {
	_, _ = s.table.Update(func(tx *mvcc.Txn[*object]) error {
		for e := range s.table.Snapshot().Range(namespaceRange(sc.namespace)) {
			if !want.has(e.Value.name().Namespace) {
				tx.Delete(e.Key)
				s.unindex(e.Value)
				s.notify(e.Value, nil)
			}
		}
		return nil
	})
	s.forget(sc, func(key string, _ *expectation) bool { return !want.has(splitKey(key).Namespace) })
}

// covers reports whether the store's scope holds a namespace.
func (s *store) covers(namespace string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.holds(namespace)
}

// holds is covers; mu is held. As long as the namespaces are unknown, any may be one.
func (s *store) holds(namespace string) bool {
	return namespace == "" || s.namespaces.unknown || s.namespaces.has(namespace) || s.isClusterScoped()
}

// listedIn reports whether the listings are stored that a read of the namespace needs; mu is held.
func (s *store) listedIn(namespace string) bool {
	return s.mapping != nil && !s.namespaces.unknown && len(s.awaited(namespace)) == 0
}

// awaited returns the scopes whose first listing a read of the namespace needs; mu is held.
func (s *store) awaited(namespace string) (scopes []*scope) {
	for _, sc := range s.scopes {
		if !sc.listed && (namespace == "" || sc.namespace == "" || sc.namespace == namespace) {
			scopes = append(scopes, sc)
		}
	}
	return scopes
}

// ready waits until the namespace can be read.
func (s *store) ready(ctx context.Context, namespace string) error {
	readable := func() bool { return !s.holds(namespace) || s.listedIn(namespace) }
	s.mu.RLock()
	ready := readable()
	s.mu.RUnlock()
	if !ready {
		if err := s.wait(ctx, "first listing", readable); err != nil {
			return err
		}
	}
	return s.covered(namespace)
}

// covered returns an error when the namespace is not covered (any more).
func (s *store) covered(namespace string) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.holds(namespace) {
		return nil
	}
	return fmt.Errorf("%s in namespace %q: %w: the kind is watched in %q only", s.form.gvk.GroupKind(), namespace, ErrNotCached, s.namespaces.names)
}
