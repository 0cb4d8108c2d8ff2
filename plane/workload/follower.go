package workload

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// follower gives one consumer the resources again whenever they change.
type follower struct {
	// ServerResourcesInterface is nil: upstream asks for preferred resources only.
	discovery.ServerResourcesInterface
	resources *resources
	ctx       context.Context
	seen      int
	behind    bool // the last answer hid what is back
}

// follow begins to follow; ctx ends the wait for a change. One consumer, one
// goroutine.
func (r *resources) follow(ctx context.Context) *follower {
	return &follower{resources: r, ctx: ctx}
}

// ServerPreferredResources answers at once the first time and from then on waits
// until the answer differs from the one before.
func (f *follower) ServerPreferredResources() ([]*metav1.APIResourceList, error) {
	for {
		f.resources.mu.Lock()
		current, next := f.resources.current, f.resources.next
		f.resources.mu.Unlock()
		if current.revision > f.seen || f.behind {
			return f.advance(current), nil
		}
		select {
		case <-f.ctx.Done():
			return nil, f.ctx.Err()
		case <-next:
		}
	}
}

// advance moves to the snapshot. A resource that went and came back in the
// meantime is hidden once, so that the consumer lets go of what it had for it.
func (f *follower) advance(to snapshot) []*metav1.APIResourceList {
	since := f.seen
	f.seen, f.behind = to.revision, false
	if since == 0 {
		return to.preferred
	}
	lists, returned := hide(to.preferred, func(resource schema.GroupResource) bool { return to.withdrawn[resource] > since })
	f.behind = returned
	return lists
}

// namespaced is ServerPreferredResources for what lives in namespaces.
func (f *follower) namespaced() ([]*metav1.APIResourceList, error) {
	lists, err := f.ServerPreferredResources()
	return discovery.FilteredBy(discovery.ResourcePredicateFunc(func(_ string, resource *metav1.APIResource) bool {
		return resource.Namespaced
	}), lists), err
}
