package client

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/setpoint-dev/setpoint/cache"
)

// maxPending is how many keys of a resource may wait for the cache. Beyond it they are merged into
// one that bars the whole resource until the server was asked.
const maxPending = 10_000

// pending is what the cache must show before it may answer a read of a key.
type pending struct {
	revision string    // it has reached this revision; empty: none
	gone     types.UID // and holds no object of this UID; empty: none
	unknown  bool      // what the server holds is not known: it must be asked first
	uid      types.UID // of the object that was written at that revision
	until    time.Time // when reads stop waiting and go to the server instead
	told     bool      // that it was not shown in time
}

// ownWrites remembers the writes that the cache may not have yet, by resource and key. A key
// without name stands for all objects of its namespace, the empty key for all of the resource.
type ownWrites struct {
	cache  *cache.Cache
	mapper meta.RESTMapper
	wait   time.Duration
	ended  context.Context // one that has ended, for questions that must not wait

	mu     sync.Mutex
	writes map[schema.GroupResource]map[types.NamespacedName]pending
	sweeps map[schema.GroupResource]int // size at which a resource's writes are swept next
	missed map[place]string             // revisions that were waited for in vain
}

// place is where a watch may be broken.
type place struct {
	resource  schema.GroupResource
	namespace string
}

// maxMissed is how many places may be known to be broken. At the limit all are forgotten, and one
// read waits in each again.
const maxMissed = 1000

func newOwnWrites(cache *cache.Cache, mapper meta.RESTMapper, wait time.Duration) *ownWrites {
	return &ownWrites{
		cache:  cache,
		mapper: mapper,
		wait:   wait,
		ended:  endedContext(),
		writes: map[schema.GroupResource]map[types.NamespacedName]pending{},
		sweeps: map[schema.GroupResource]int{},
		missed: map[place]string{},
	}
}

// shownAs finds the kind under which the cache shows the target's resource in its namespace: the
// target's own, or the same in another version.
func (o *ownWrites) shownAs(t target) (schema.GroupVersionKind, bool) {
	if o.cache == nil {
		return t.gvk, false
	}
	if o.cache.Covers(t.gvk, t.key.Namespace) {
		return t.gvk, true
	}
	// An error means that no other version is known.
	mappings, _ := o.mapper.RESTMappings(t.gvk.GroupKind())
	for _, mapping := range mappings {
		if mapping.GroupVersionKind != t.gvk && o.cache.Covers(mapping.GroupVersionKind, t.key.Namespace) {
			return mapping.GroupVersionKind, true
		}
	}
	return t.gvk, false
}

// wrote records an answer to a write, and obj as it says. It is gone if the write removed the object.
func (o *ownWrites) wrote(t target, obj metav1.Object, gone bool, got answer) {
	t.key = types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	shown, ok := o.shownAs(t)
	if !ok || t.key.Name == "" {
		return
	}
	// An object outside the cache's selectors leaves the cache, or never comes: no event tells of
	// a further write to it, so its revision is not waited for.
	matches, sure := o.cache.Matches(shown, obj)
	if !(matches && sure) && !o.mayHold(shown, t) {
		if !sure { // the server knows
			o.unsure(t)
		}
		return
	}
	o.record(shown, t, func(p *pending) {
		if p.unknown && !sure {
			return
		}
		p.unknown = false
		if !matches {
			o.leaves(shown, t, p, obj.GetUID())
			return
		}
		p.revision, p.uid, p.gone = later(p.revision, obj.GetResourceVersion()), obj.GetUID(), ""
		if gone {
			p.gone = obj.GetUID()
		}
	})
	if matches && sure && !gone && got.body != nil {
		o.expect(shown, t, obj, got)
	}
}

// wrotePart records a write to a subresource of another kind whose answer carries the revision of
// the object.
func (o *ownWrites) wrotePart(t target, revision string) {
	shown, ok := o.shownAs(t)
	if ok && revision != "" && o.mayHold(shown, t) {
		o.record(shown, t, func(p *pending) {
			if !p.unknown {
				p.revision = later(p.revision, revision)
			}
		})
	}
}

// deleted records that the object of that UID is gone.
func (o *ownWrites) deleted(t target, uid types.UID) {
	if shown, ok := o.shownAs(t); ok && o.mayHold(shown, t) {
		o.record(shown, t, func(p *pending) {
			p.unknown = false
			o.leaves(shown, t, p, uid)
		})
	}
}

// leaves makes p wait for the end of the object of that UID, unless the cache still has to lose a
// predecessor first, which the object then never follows.
func (o *ownWrites) leaves(shown schema.GroupVersionKind, t target, p *pending, uid types.UID) {
	if held, ok := o.cache.Peek(shown, t.key); !ok || held.UID() != p.gone {
		p.gone = uid
	}
}

// unsure records that what the server holds under the key is not known: the answer to a write was
// lost, or it refused a write because it holds something else than the cache.
func (o *ownWrites) unsure(t target) {
	if shown, ok := o.shownAs(t); ok {
		o.record(shown, t, func(p *pending) { p.unknown = true })
	}
}

// mayHold reports whether the cache shows the key, or will for a moment because of an earlier
// write.
func (o *ownWrites) mayHold(shown schema.GroupVersionKind, t target) bool {
	if _, ok := o.cache.Peek(shown, t.key); ok {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	_, ok := o.writes[t.mapping.Resource.GroupResource()][t.key]
	return ok
}

func (o *ownWrites) record(shown schema.GroupVersionKind, t target, change func(*pending)) {
	resource := t.mapping.Resource.GroupResource()
	o.sweep(shown, resource)
	o.mu.Lock()
	defer o.mu.Unlock()
	writes := o.writes[resource]
	if writes == nil {
		writes = map[types.NamespacedName]pending{}
		o.writes[resource] = writes
	}
	p := writes[t.key]
	p.until, p.told = time.Now().Add(o.wait), false
	change(&p)
	writes[t.key] = p
	if len(writes) > maxPending {
		o.writes[resource] = map[types.NamespacedName]pending{{}: {unknown: true, until: p.until}}
		o.sweeps[resource] = 0
	}
}

// sweep forgets the writes that the cache has, each time their number has doubled: those that
// nobody reads back would stay otherwise.
func (o *ownWrites) sweep(shown schema.GroupVersionKind, resource schema.GroupResource) {
	o.mu.Lock()
	due := len(o.writes[resource]) >= max(o.sweeps[resource], minSweep)
	o.mu.Unlock()
	if !due {
		return
	}
	for _, w := range o.in(resource, types.NamespacedName{}) {
		if o.reached(shown, w) {
			o.settle(resource, w)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sweeps[resource] = 2 * len(o.writes[resource])
}

const minSweep = 256

// write is one pending key.
type write struct {
	key types.NamespacedName
	pending
}

// in returns what a read must see: of one key, of a namespace when it has no name, or of all when
// it is empty; sorted by what times out first.
func (o *ownWrites) in(resource schema.GroupResource, key types.NamespacedName) []write {
	o.mu.Lock()
	defer o.mu.Unlock()
	writes := o.writes[resource]
	if len(writes) == 0 {
		return nil
	}
	var out []write
	if key.Name != "" {
		for _, k := range []types.NamespacedName{key, {Namespace: key.Namespace}, {}} {
			if p, ok := writes[k]; ok && (len(out) == 0 || out[len(out)-1].key != k) {
				out = append(out, write{k, p})
			}
		}
		return out
	}
	for k, p := range writes {
		if key.Namespace == "" || k.Namespace == key.Namespace || k == (types.NamespacedName{}) {
			out = append(out, write{k, p})
		}
	}
	slices.SortFunc(out, func(a, b write) int {
		return cmp.Or(a.until.Compare(b.until), cmp.Compare(a.key.String(), b.key.String()))
	})
	return out
}

// get returns what is pending for a key: nothing if it is the zero value.
func (o *ownWrites) get(resource schema.GroupResource, key types.NamespacedName) pending {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.writes[resource][key]
}

// settle forgets a pending key, unless it was written again.
func (o *ownWrites) settle(resource schema.GroupResource, w write) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.writes[resource][w.key] == w.pending {
		delete(o.writes[resource], w.key)
	}
}

// replace changes a pending key that was not written again.
func (o *ownWrites) replace(resource schema.GroupResource, old write, now pending) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.writes[resource][old.key] == old.pending {
		o.writes[resource][old.key] = now
	}
}

// reached reports whether the cache has the write, without waiting.
func (o *ownWrites) reached(shown schema.GroupVersionKind, w write) bool {
	return o.await(o.ended, shown, w) == nil
}

// await waits until the cache has the write.
func (o *ownWrites) await(ctx context.Context, shown schema.GroupVersionKind, w write) error {
	if w.unknown {
		return errUnknown
	}
	if w.revision != "" {
		if err := o.cache.WaitRevision(ctx, shown, w.key.Namespace, w.revision); err != nil {
			return err
		}
	}
	if w.gone != "" {
		return o.cache.WaitGone(ctx, shown, w.key, w.gone)
	}
	return nil
}

// late takes note that the cache did not reach a write's revision in time.
func (o *ownWrites) late(shown schema.GroupVersionKind, resource schema.GroupResource, w write) {
	if w.revision == "" || o.cache.WaitRevision(o.ended, shown, w.key.Namespace, w.revision) == nil {
		return // it was another thing that was waited for
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.missed) >= maxMissed {
		clear(o.missed)
	}
	o.missed[place{resource, w.key.Namespace}] = w.revision
}

// isLate reports whether the cache has still not reached what was waited for in vain: no need to
// wait for what was written since.
func (o *ownWrites) isLate(shown schema.GroupVersionKind, resource schema.GroupResource, namespace string) bool {
	at := place{resource, namespace}
	o.mu.Lock()
	revision, missed := o.missed[at]
	o.mu.Unlock()
	if !missed {
		return false
	}
	if o.cache.WaitRevision(o.ended, shown, namespace, revision) != nil {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.missed[at] == revision {
		delete(o.missed, at)
	}
	return false
}

// removed reports whether the answer to a write that was no Delete says that the write removed the
// object, by taking the last finalizer from one that was being deleted. The server answers such a
// write with the revision that was sent, not with that of the deletion.
func removed(obj metav1.Object) bool {
	grace := obj.GetDeletionGracePeriodSeconds()
	return obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0 && (grace == nil || *grace == 0)
}

// later is the later of two revisions. One that cannot be compared is passed over: a server whose
// revisions are no numbers gives no order to wait by.
func later(a, b string) string {
	if order, err := resourceversion.CompareResourceVersion(b, a); err == nil && order > 0 {
		return b
	}
	if a == "" && orderable(b) {
		return b
	}
	return a
}

// earlier is the earlier of two revisions, or the one that there is.
func earlier(a, b string) string {
	if order, err := resourceversion.CompareResourceVersion(a, b); a == "" || err == nil && order > 0 {
		return b
	}
	return a
}

func orderable(revision string) bool {
	_, err := resourceversion.CompareResourceVersion(revision, revision)
	return err == nil
}
