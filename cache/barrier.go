package cache

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Covers reports whether a watch is declared, and the cache runs, whose scope holds the namespace. The empty
// namespace stands for cluster-scoped objects and for a List over everything in the kind's scope, so it is
// covered whenever the kind is watched.
func (c *Cache) Covers(gvk schema.GroupVersionKind, namespace string) bool {
	s, err := c.lookup(gvk)
	return err == nil && s.covers(namespace)
}

// Listing reports whether a read of the namespace (empty: of all of the kind's scope) still needs a first listing, and
// since when the cache has been trying to get it. A listing that fails is tried again for ever; a reader may have less
// patience.
func (c *Cache) Listing(gvk schema.GroupVersionKind, namespace string) (since time.Time, listing bool) {
	s, err := c.lookup(gvk)
	if err != nil {
		return time.Time{}, false
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.listedIn(namespace) {
		return time.Time{}, false
	}
	since = s.began
	for i, sc := range s.awaited(namespace) {
		if i == 0 || sc.began.Before(since) {
			since = sc.began
		}
	}
	return since, true
}

// WaitRevision waits until the cache has surely seen revision rv of the kind: every change up to it, in the
// scope that holds the namespace (empty: in all of the kind's scope), is in the store. It never waits longer
// than ctx. An rv that is no number is an error at once, as is a kind that is not cached (ErrNotCached).
func (c *Cache) WaitRevision(ctx context.Context, gvk schema.GroupVersionKind, namespace, rv string) error {
	s, err := c.lookup(gvk)
	if err != nil {
		return err
	}
	if _, err := resourceversion.CompareResourceVersion(rv, rv); err != nil {
		return fmt.Errorf("wait for revision %q of %s: %w", rv, gvk.GroupKind(), err)
	}
	return s.wait(ctx, "revision "+rv, func() bool { return s.listedIn(namespace) && s.seen(namespace, rv) })
}

// WaitGone waits until the cache holds no object of that UID under the key. It never waits longer than ctx.
func (c *Cache) WaitGone(ctx context.Context, gvk schema.GroupVersionKind, key types.NamespacedName, uid types.UID) error {
	s, err := c.lookup(gvk)
	if err != nil {
		return err
	}
	return s.wait(ctx, fmt.Sprintf("end of %s", key), func() bool {
		o := s.get(joinKey(key))
		return s.listedIn(key.Namespace) && (o == nil || o.uid != string(uid))
	})
}

// wait waits until reached says so, which is called with mu held.
func (s *store) wait(ctx context.Context, what string, reached func() bool) error {
	for {
		s.mu.Lock()
		if reached() {
			s.mu.Unlock()
			return nil
		}
		if s.progress == nil {
			s.progress = make(chan struct{})
		}
		progress := s.progress
		s.mu.Unlock()
		select {
		case <-progress:
		case <-s.stopped:
			return fmt.Errorf("%s: %w: its watch was stopped", s.form.gvk.GroupKind(), ErrNotCached)
		case <-ctx.Done():
			return s.waitError(ctx, what)
		}
	}
}

// seen reports whether all scopes that hold the namespace have seen a revision; mu is held.
func (s *store) seen(namespace, rv string) bool {
	for _, sc := range s.scopes {
		if sc.version != rv && !newer(sc.version, rv) && (namespace == "" || sc.namespace == "" || sc.namespace == namespace) {
			return false
		}
	}
	return true
}

// resource names the kind in errors as the server does.
func (s *store) resource() schema.GroupResource {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.mapping == nil {
		return schema.GroupResource{Group: s.form.gvk.Group, Resource: s.form.gvk.Kind}
	}
	return s.mapping.Resource.GroupResource()
}

// isClusterScoped reports whether the kind is known to have no namespaces; mu is held.
func (s *store) isClusterScoped() bool {
	return s.mapping != nil && s.mapping.Scope.Name() == meta.RESTScopeNameRoot
}
