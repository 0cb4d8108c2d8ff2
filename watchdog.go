package setpoint

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"time"
)

// The watchdog looks for reconciles that have run for much longer than they
// should: for watchdogSlack more than the controller's Timeout or, without one,
// for longer than watchdogDefault.
const (
	watchdogPeriod  = 10 * time.Second
	watchdogSlack   = 30 * time.Second
	watchdogDefault = 10 * time.Minute
)

// stackLabel is the profiler label that finds the goroutines of a reconcile. It
// shows in CPU profiles, too.
const stackLabel = "setpoint.dev/reconcile"

// running is the set of reconciles that run.
type running struct {
	mu    sync.Mutex
	infos map[*reconcileInfo]struct{}
}

// add adds a reconcile and labels its goroutine. It returns the context with the
// label, and what takes both back.
func (r *running) add(ctx context.Context, info *reconcileInfo) (labelled context.Context, done func()) {
	labelled = pprof.WithLabels(ctx, pprof.Labels(stackLabel, info.id))
	pprof.SetGoroutineLabels(labelled)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.infos == nil {
		r.infos = map[*reconcileInfo]struct{}{}
	}
	r.infos[info] = struct{}{}
	return labelled, func() {
		pprof.SetGoroutineLabels(ctx)
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.infos, info)
	}
}

// list returns what runs, the longest first.
func (r *running) list() []*reconcileInfo {
	r.mu.Lock()
	defer r.mu.Unlock()
	infos := make([]*reconcileInfo, 0, len(r.infos))
	for info := range r.infos {
		infos = append(infos, info)
	}
	slices.SortFunc(infos, func(a, b *reconcileInfo) int {
		return cmp.Or(a.since.Compare(b.since), strings.Compare(a.id, b.id))
	})
	return infos
}

// stuck returns what has run for longer than patience at now, the longest first.
func (r *running) stuck(now time.Time, patience time.Duration) []*reconcileInfo {
	infos := r.list()
	n := 0
	for n < len(infos) && now.Sub(infos[n].since) > patience {
		n++
	}
	return infos[:n]
}

// patience is how long a reconcile may run before it counts as stuck.
func (c *Controller) patience() time.Duration {
	if c.timeout > 0 {
		return c.timeout + watchdogSlack
	}
	return watchdogDefault
}

// watchdog reports stuck reconciles until ctx ends: each with its stack when it
// is first seen, and again each time the time that it has run has doubled.
func (m *Manager) watchdog(ctx context.Context) error {
	due := map[*reconcileInfo]time.Duration{}
	for sleep(ctx, watchdogPeriod) {
		now := time.Now()
		seen := map[*reconcileInfo]time.Duration{}
		for _, c := range m.controllers {
			var stuck []*reconcileInfo
			for _, s := range c.sites() {
				stuck = append(stuck, s.running.stuck(now, c.patience())...)
			}
			c.metrics.Stuck.Set(float64(len(stuck)))
			for _, info := range stuck {
				age := now.Sub(info.since)
				if seen[info] = due[info]; age >= due[info] {
					seen[info] = 2 * age
					c.log.Error("a reconcile is stuck", "object", info.req.String(), "reconcileID", info.id,
						"causes", causesValue(info.causes), "duration", age.Round(time.Second), "stack", stackOf(info.id))
				}
			}
		}
		due = seen
	}
	return nil
}

// liveness fails when a controller that has a Timeout has only workers whose
// reconciles ignore it: nothing but a new process helps then. One that does so in
// an added cluster does not cost the others their process.
func (c *Controller) liveness() (string, error) {
	home := c.siteOf("")
	if home == nil || c.timeout == 0 {
		return "", nil
	}
	if stuck := home.running.stuck(time.Now(), c.patience()); len(stuck) == c.workers {
		return "", fmt.Errorf("all %d workers run reconciles that ignore their timeout of %v; the longest reconciles %v", c.workers, c.timeout, stuck[0].req)
	}
	return "", nil
}

// stackOf returns the stacks of the goroutines of a reconcile.
func stackOf(id string) string {
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		return err.Error()
	}
	var found []string
	for block := range strings.SplitSeq(profile.String(), "\n\n") {
		if strings.Contains(block, `"`+stackLabel+`":"`+id+`"`) {
			found = append(found, strings.TrimSpace(block))
		}
	}
	return strings.Join(found, "\n\n")
}

// sleep waits for d and reports false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
