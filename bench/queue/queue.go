// Package queue measures the work queue beside its peers: client-go's workqueue and controller-runtime's
// priority queue.
//
// The work is the same for all: a number of keys wait all the time, while one goroutine adds one, takes the next and
// reports it done, over and over. The keys are reconcile.Request values with realistic names, all different. No queue
// keeps metrics. Ours is given a cause with each key and keeps it, which the peers cannot.
//
// Each contender is built, measured and dropped before the next, so that nobody's memory burdens another's garbage
// collector. A first run is thrown away: it takes the memory from the operating system, which costs much on some
// machines and would hit whoever comes first. Time is taken over windows of a thousand items, and a figure is the
// lower quartile of these: on a shared machine everything but the work itself only ever adds to the time.
package queue

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/setpoint-dev/setpoint/queue"
)

// A Contender is a queue under measurement, behind the few calls that the work consists of.
type Contender struct {
	Add  func(reconcile.Request)
	Get  func() reconcile.Request
	Done func(reconcile.Request)
	Stop func()
}

// The contenders. Flows is ours with a flow per namespace, as a controller sets it up.
const (
	Ours          = "setpoint"
	Flows         = "setpoint, flow per namespace"
	Workqueue     = "client-go workqueue"
	PriorityQueue = "controller-runtime priority queue"
)

// New returns an empty queue of the given name.
func New(name string) Contender {
	switch name {
	case Ours:
		return newOurs(queue.Config[reconcile.Request]{})
	case Flows:
		return newOurs(queue.Config[reconcile.Request]{
			Flow: func(r reconcile.Request) string { return r.Namespace },
		})
	case Workqueue:
		q := workqueue.NewTyped[reconcile.Request]()
		return Contender{
			Add:  q.Add,
			Get:  func() reconcile.Request { key, _ := q.Get(); return key },
			Done: q.Done,
			Stop: q.ShutDown,
		}
	case PriorityQueue:
		q := priorityqueue.New[reconcile.Request]("") // without a name it keeps no metrics
		return Contender{
			Add:  func(key reconcile.Request) { q.AddWithOpts(priorityqueue.AddOpts{}, key) },
			Get:  func() reconcile.Request { key, _, _ := q.GetWithPriority(); return key },
			Done: q.Done,
			Stop: q.ShutDown,
		}
	}
	panic("no such contender: " + name)
}

func newOurs(config queue.Config[reconcile.Request]) Contender {
	q := queue.New(config)
	ctx := context.Background()
	cause := queue.Cause{Source: "For", Kind: "Pod", Object: "namespace/name", Verb: "modified", Version: "12345"}
	return Contender{
		Add:  func(key reconcile.Request) { q.Add(key, queue.Fresh, cause) },
		Get:  func() reconcile.Request { item, _ := q.Get(ctx); return item.Key },
		Done: q.Done,
		Stop: q.ShutDown,
	}
}

// A Result is the cost of one item, an add, a get and a done, in nanoseconds.
type Result struct {
	ID          string             // "queue-1k", "queue-100k", "queue-1m"
	Queued      int                // keys that wait meanwhile
	Nanoseconds map[string]float64 // by contender
}

// Peer returns the cheaper of the peers, which a claim has to beat.
func (r Result) Peer() (name string, nanoseconds float64) {
	if r.Nanoseconds[Workqueue] <= r.Nanoseconds[PriorityQueue] {
		return Workqueue, r.Nanoseconds[Workqueue]
	}
	return PriorityQueue, r.Nanoseconds[PriorityQueue]
}

// Measure runs all contenders at all sizes; rounds of them, at least one. It takes some 10 seconds a round.
func Measure(ctx context.Context, rounds int) ([]Result, error) {
	var results []Result
	for _, size := range []struct {
		id     string
		queued int
	}{{"queue-1k", 1_000}, {"queue-100k", 100_000}, {"queue-1m", 1_000_000}} {
		r := Result{ID: size.id, Queued: size.queued, Nanoseconds: map[string]float64{}}
		keys := Keys(2 * size.queued)
		measure(New(Ours), keys, size.queued)
		for range max(rounds, 1) {
			for _, name := range []string{Ours, Flows, Workqueue, PriorityQueue} {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				ns := measure(New(name), keys, size.queued)
				if best, ok := r.Nanoseconds[name]; !ok || ns < best {
					r.Nanoseconds[name] = ns
				}
			}
		}
		results = append(results, r)
	}
	return results, nil
}

// Keys returns n different keys, spread over 100 namespaces.
func Keys(n int) []reconcile.Request {
	keys := make([]reconcile.Request, n)
	for i := range keys {
		keys[i].NamespacedName = types.NamespacedName{
			Namespace: fmt.Sprintf("team-%02d", i%100),
			Name:      fmt.Sprintf("workload-%07d-7d4b9c6f5d", i),
		}
	}
	return keys
}

// measure returns the nanoseconds per item with so many keys waiting. There must be twice as many keys, so that the key
// that is added never waits already.
func measure(c Contender, keys []reconcile.Request, queued int) float64 {
	defer c.Stop()
	for _, key := range keys[:queued] {
		c.Add(key)
	}
	next := queued
	window := func() float64 {
		const items = 1000
		start := time.Now()
		for range items {
			c.Add(keys[next])
			next = (next + 1) % len(keys)
			c.Done(c.Get())
		}
		return float64(time.Since(start).Nanoseconds()) / items
	}
	window()
	runtime.GC()
	windows := make([]float64, 400)
	for i := range windows {
		windows[i] = window()
	}
	slices.Sort(windows)
	return windows[len(windows)/4]
}
