package reload

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/cache"
)

// budgetPatience is after how long a workload that waits for the budget looks again although nothing told it to: when a
// rollout that another replica began has ended, or one has taken too long to count.
const budgetPatience = 15 * time.Second

// rolling names a workload that rolls or waits to.
type rolling struct {
	kind *workloadKind
	req  setpoint.Request
}

// budget bounds how many workloads roll at once. Those that do are found in the cache, so the bound outlives the process;
// those that this process began are remembered besides, until the cache shows their end.
type budget struct {
	limit   int // 0: none
	timeout time.Duration
	cache   *cache.Cache
	watches map[*workloadKind]*cache.Watch
	kinds   []*workloadKind

	mu      sync.Mutex
	began   map[rolling]time.Time
	counted map[rolling]bool // the others that stood in the way when one was last told to wait
	waiting []rolling        // in the order of arrival
	wake    map[*workloadKind]func(setpoint.Request)
}

func newBudget(limit int, timeout time.Duration) *budget {
	return &budget{
		limit: limit, timeout: timeout,
		watches: map[*workloadKind]*cache.Watch{},
		began:   map[rolling]time.Time{}, wake: map[*workloadKind]func(setpoint.Request){},
	}
}

// watch declares that the budget reads workloads. It must be called after the indexes were declared.
func (b *budget) watch(c *cache.Cache, kinds []*workloadKind) error {
	if b.limit == 0 {
		return nil
	}
	b.cache, b.kinds = c, kinds
	for _, k := range kinds {
		w, err := c.Watch(k.gvk, nil)
		if err != nil {
			return fmt.Errorf("watch %s: %w", k.gvk.Kind, err)
		}
		b.watches[k] = w
	}
	return nil
}

// wakes returns the source of requests of those workloads of a kind that waited and may roll now.
func (b *budget) wakes(k *workloadKind) setpoint.Source {
	return func(ctx context.Context, add func(setpoint.Request)) error {
		b.mu.Lock()
		b.wake[k] = add
		b.mu.Unlock()
		<-ctx.Done()
		return nil
	}
}

// take reports whether the workload may roll now. If so it counts until finished is called, else it waits in line.
func (b *budget) take(ctx context.Context, k *workloadKind, req setpoint.Request) (bool, error) {
	if b.limit == 0 {
		return true, nil
	}
	now := time.Now()
	others, known, err := b.unfinished(ctx, now)
	if err != nil || !known {
		return false, err
	}
	me := rolling{k, req}
	b.mu.Lock()
	defer b.mu.Unlock()
	for r, began := range b.began {
		if now.Sub(began) < b.timeout {
			others[r] = true
		} else {
			delete(b.began, r)
		}
	}
	delete(others, me)
	if len(others) >= b.limit {
		b.counted = others
		if !slices.Contains(b.waiting, me) {
			b.waiting = append(b.waiting, me)
		}
		return false, nil
	}
	b.began[me] = now
	b.leave(me)
	return true, nil
}

// unfinished returns the workloads that were rolled and have not finished, and reports false when that is not known yet.
func (b *budget) unfinished(ctx context.Context, now time.Time) (map[rolling]bool, bool, error) {
	found := map[rolling]bool{}
	for _, k := range b.kinds {
		w := b.watches[k]
		select {
		case <-w.Synced():
		default:
			if err := w.Err(); meta.IsNoMatchError(err) || apierrors.IsForbidden(err) {
				continue // nothing of a kind that is not served, or not allowed to be watched, can be rolled
			}
			return nil, false, nil
		}
		list := listOf(k.gvk)
		err := b.cache.List(ctx, k.gvk, cache.ListOptions{Fields: fields.OneTermEqualSelector(unfinishedIndex, "true")}, list)
		if err != nil {
			return nil, false, fmt.Errorf("count the %ss that roll: %w", k.gvk.Kind, err)
		}
		for i := range list.Items {
			m, err := parseMemory(list.Items[i].Annotations[State])
			if err == nil && now.Sub(m.rolledAt()) < b.timeout {
				found[rolling{k, setpoint.RequestFor(&list.Items[i])}] = true
			}
		}
	}
	return found, true, nil
}

// finished notes that a workload does not roll. If it did, it wakes the one that waits for longest.
func (b *budget) finished(k *workloadKind, req setpoint.Request) {
	if b.limit == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	me := rolling{k, req}
	_, mine := b.began[me]
	if !mine && !b.counted[me] {
		return
	}
	delete(b.began, me)
	delete(b.counted, me)
	if len(b.waiting) == 0 {
		return
	}
	next := b.waiting[0]
	if add := b.wake[next.kind]; add != nil {
		b.leave(next)
		add(next.req)
	}
}

// giveUp notes that a workload does not have to roll any more, so that it neither counts as waiting nor is woken in place of
// one that does.
func (b *budget) giveUp(k *workloadKind, req setpoint.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leave(rolling{k, req})
}

// leave takes a workload out of the line.
func (b *budget) leave(r rolling) {
	b.waiting = slices.DeleteFunc(b.waiting, func(w rolling) bool { return w == r })
}

// length returns how many workloads wait.
func (b *budget) length() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting)
}
