package cache

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
)

// start begins to follow the kind; ctx ends it.
func (s *store) start(ctx context.Context, c *Cache) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ctx, s.began = ctx, time.Now()
	s.run = func(f func(context.Context)) {
		c.goroutines.Go(func() { f(ctx) })
	}
	if s.selected != nil {
		s.run(s.awaitNamespaces)
	}
	s.run(func(ctx context.Context) {
		defer close(s.stopped)
		s.resolve(ctx, c)
		<-ctx.Done()
	})
}

// resolve finds out what the kind's resource is and starts its scopes. A kind that is not installed yet is
// waited for.
func (s *store) resolve(ctx context.Context, c *Cache) {
	var wait backoff
	for {
		mapping, err := c.mapping(s.form.gvk)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			s.open(mapping)
			return
		}
		s.stats.failed(err)
		s.mu.Lock()
		first := s.resolveErr == nil
		s.resolveErr = err
		s.mu.Unlock()
		if first {
			s.logger.Warn("kind cannot be watched yet, it will be tried again", "error", err)
		}
		if meta.IsNoMatchError(err) {
			c.resetMapper()
		}
		c.sleep(ctx, wait.next(c.random()))
	}
}

// open starts the scopes.
func (s *store) open(mapping *meta.RESTMapping) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resolveErr = nil
	s.mapping = mapping
	s.follow()
}

// markListed takes note of a scope's first listing.
func (s *store) markListed(sc *scope) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sc.listed || sc.left {
		return
	}
	sc.listed = true
	s.settle()
	s.wake()
}

// settle makes the store synced when all its scopes have stored their first listing; mu is held.
func (s *store) settle() {
	if s.isSynced() || !s.listedIn("") {
		return
	}
	close(s.synced)
	for sub := range s.subscribers {
		s.attach(sub)
	}
}

// join adds a subscriber. It gets what is there as soon as the store is synced, and every change from then on.
func (s *store) join(sub *subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscribers[sub] = struct{}{}
	if s.isSynced() {
		s.attach(sub)
	}
}

// attach starts a subscriber's goroutine with the present content; mu is held.
func (s *store) attach(sub *subscriber) {
	snapshot := s.table.Snapshot()
	s.run(func(ctx context.Context) { sub.run(ctx, snapshot) })
}

func (s *store) leave(sub *subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.subscribers, sub)
	sub.close()
}

func (s *store) isSynced() bool {
	select {
	case <-s.synced:
		return true
	default:
		return false
	}
}

// waitError says what was waited for in vain, and what the watch suffers from.
func (s *store) waitError(ctx context.Context, what string) error {
	err := fmt.Errorf("waiting for the %s of %s: %w", what, s.form.gvk.GroupKind(), context.Cause(ctx))
	if cause := s.err(); cause != nil {
		return fmt.Errorf("%w; its watch last failed with: %w", err, cause)
	}
	return err
}
