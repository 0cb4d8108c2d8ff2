package client

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/cache"
)

// maxAsks is how many keys of unknown state one read asks the server about before it goes live
// itself.
const maxAsks = 16

var (
	errUnknown   = errors.New("what the server holds is not known")
	errNotListed = errors.New("the first listing takes too long")
)

// endedContext is a context that has ended because of errNotListed.
func endedContext() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errNotListed)
	return ctx
}

// source is where a read is answered from.
type source uint8

const (
	fromCache      source = iota // it was answered: with a result or the error
	fromServer                   // the kind is not cached there, or a live read is asked for
	insteadOfCache               // it is, but the cache does not catch up in time
)

// readCache answers a read from the cache, after waiting for what this client wrote in the target,
// or says where to read instead.
func (c *Client) readCache(ctx context.Context, t target, o getOptions, read func(context.Context) error) (source, error) {
	if c.cache == nil || o.live || !c.cache.Covers(t.gvk, t.key.Namespace) {
		return fromServer, nil
	}
	resource := t.mapping.Resource.GroupResource()
	if writes := c.own.in(resource, t.key); len(writes) > 0 && !o.stale {
		start := time.Now()
		behind, err := c.catchUp(ctx, t, writes)
		c.metrics.waits.WithLabelValues(resource.String()).Observe(time.Since(start).Seconds())
		if err != nil {
			return fromCache, err
		}
		if behind {
			c.metrics.stale.WithLabelValues(resource.String()).Inc()
			return insteadOfCache, nil
		}
	}
	return c.readListed(ctx, t, read)
}

// readListed reads from the cache, and waits for its first listing no longer than for an own
// write: a watch may fail for ever. That time counts from the beginning of the watch, so that it is
// waited for once.
func (c *Client) readListed(ctx context.Context, t target, read func(context.Context) error) (source, error) {
	// A context that has ended makes the read answer at once if it can.
	err := read(c.own.ended)
	if errors.Is(err, errNotListed) {
		if left := c.listingTime(t); left > 0 {
			bounded, cancel := context.WithTimeoutCause(ctx, left, errNotListed)
			defer cancel()
			if err = read(bounded); errors.Is(err, errNotListed) && ctx.Err() == nil {
				c.log.WarnContext(ctx, "the cache has no first listing yet: reading from the server until it has",
					"kind", t.gvk.Kind, "namespace", t.key.Namespace, "name", t.key.Name, "error", err)
			}
		}
	}
	switch {
	case errors.Is(err, errNotListed) && ctx.Err() == nil:
		c.metrics.stale.WithLabelValues(t.mapping.Resource.GroupResource().String()).Inc()
		return insteadOfCache, nil
	case errors.Is(err, cache.ErrNotCached):
		return fromServer, nil
	}
	return fromCache, err
}

// listingTime is how long a read may still wait for the first listing.
func (c *Client) listingTime(t target) time.Duration {
	since, listing := c.cache.Listing(t.gvk, t.key.Namespace)
	if !listing {
		return c.own.wait
	}
	return time.Until(since.Add(c.own.wait))
}

// catchUp waits until the cache has the writes, each until its own time is up, and reports whether
// it is still behind.
func (c *Client) catchUp(ctx context.Context, t target, writes []write) (behind bool, err error) {
	if c.listingTime(t) <= 0 {
		return true, nil
	}
	resource := t.mapping.Resource.GroupResource()
	if known, err := c.askAll(ctx, t, writes); err != nil {
		return true, ctx.Err()
	} else if known {
		writes = c.own.in(resource, t.key)
	}
	for _, w := range writes {
		until, cancel := context.WithDeadline(ctx, w.until)
		late := c.own.isLate(t.gvk, resource, w.key.Namespace)
		if late {
			cancel()
		}
		err := c.own.await(until, t.gvk, w)
		cancel()
		if err == nil {
			c.own.settle(resource, w)
			continue
		}
		if ctx.Err() != nil {
			return true, context.Cause(ctx)
		}
		if !late {
			c.fellBehind(ctx, t, w, err)
		}
		return true, nil
	}
	return false, nil
}

// fellBehind says once that the cache does not show a write in time. An object that should be gone
// is asked about again: it may be kept after all, as a namespace is by finalizers that are not in
// its metadata.
func (c *Client) fellBehind(ctx context.Context, t target, w write, err error) {
	resource := t.mapping.Resource.GroupResource()
	c.own.late(t.gvk, resource, w)
	if w.told {
		return
	}
	now := w.pending
	now.told = true
	now.unknown = now.unknown || now.gone != ""
	c.own.replace(resource, w, now)
	c.log.WarnContext(ctx, "the cache does not show an own write in time: reading from the server until it does",
		"kind", t.gvk.Kind, "namespace", w.key.Namespace, "name", w.key.Name, "revision", w.revision, "error", err)
}

// askAll asks the server about the keys whose state is not known, and reports whether there were
// any. The error is that of a request.
func (c *Client) askAll(ctx context.Context, t target, writes []write) (asked bool, err error) {
	asks := 0
	for _, w := range writes {
		// An answer about a collection may have changed it meanwhile.
		if w.pending = c.own.get(t.mapping.Resource.GroupResource(), w.key); !w.unknown {
			continue
		}
		if asks++; asks > maxAsks {
			return true, errUnknown
		}
		if err := c.ask(ctx, t, w); err != nil {
			c.log.WarnContext(ctx, "cannot find out what became of a write: reading from the server meanwhile",
				"kind", t.gvk.Kind, "namespace", w.key.Namespace, "name", w.key.Name, "error", err)
			return true, err
		}
	}
	return asks > 0, nil
}

// ask finds out what the cache must show under a key, or under all keys of a collection, by
// reading the metadata that the server has now within the cache's scope.
//
// What the cache shows is read first: an object that the cache has and the server has not (or has
// outside the cache's selectors) is then surely leaving the cache, rather than created in between.
func (c *Client) ask(ctx context.Context, t target, w write) error {
	shown, err := c.shown(ctx, t, w)
	if err != nil {
		return err
	}
	t.key = w.key
	live, err := c.inScope(ctx, t)
	if err != nil {
		return err
	}
	now := w.pending
	now.unknown = false
	stays := map[types.UID]bool{}
	for _, item := range live {
		stays[item.GetUID()] = true
		now.revision = later(now.revision, item.GetResourceVersion())
	}
	if stays[now.gone] {
		now.gone = ""
	}
	resource := t.mapping.Resource.GroupResource()
	c.own.replace(resource, w, now)
	for key, uid := range shown {
		if uid != "" && !stays[uid] {
			t.key = key
			c.own.record(t.gvk, t, func(p *pending) { p.gone, p.until = uid, w.until })
		}
	}
	return nil
}

// shown returns the UIDs of the objects that the cache shows under the key or in the collection,
// or may yet show because this client wrote them.
func (c *Client) shown(ctx context.Context, t target, w write) (map[types.NamespacedName]types.UID, error) {
	shown := map[types.NamespacedName]types.UID{}
	if w.key.Name != "" {
		if entry, ok := c.cache.Peek(t.gvk, w.key); ok {
			shown[w.key] = entry.UID()
		}
	} else {
		ctx, cancel := context.WithDeadline(ctx, w.until)
		defer cancel()
		var list metav1.PartialObjectMetadataList
		if err := c.cache.List(ctx, t.gvk, cache.ListOptions{Namespace: w.key.Namespace}, &list); err != nil {
			return nil, err
		}
		for i := range list.Items {
			shown[KeyOf(&list.Items[i])] = list.Items[i].UID
		}
	}
	for _, own := range c.own.in(t.mapping.Resource.GroupResource(), w.key) {
		if own.key.Name != "" && own.revision != "" && own.uid != "" {
			shown[own.key] = own.uid
		}
	}
	return shown, nil
}
