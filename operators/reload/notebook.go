package reload

import (
	"slices"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint"
)

// notebook holds what a process knows about workloads beside what is on them. Its loss delays, repeats a warning, and
// in a dry run begins anew; nothing else depends on it.
type notebook struct {
	mu    sync.Mutex
	notes map[setpoint.Request]*note
}

type note struct {
	due  time.Time // when it was first seen that the workload has to roll; zero: it has not
	said []string  // problems that an Event told of
	dry  *memory   // what a dry run would have written
}

func newNotebook() *notebook { return &notebook{notes: map[setpoint.Request]*note{}} }

// change calls f with the note of a workload, which is dropped when nothing is left in it.
func (n *notebook) change(req setpoint.Request, f func(*note)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	entry := n.notes[req]
	if entry == nil {
		entry = &note{}
	}
	f(entry)
	if entry.due.IsZero() && entry.said == nil && entry.dry == nil {
		delete(n.notes, req)
	} else {
		n.notes[req] = entry
	}
}

// first returns when it was first seen that the workload has to roll, which is now if it was not seen before.
func (n *notebook) first(req setpoint.Request, now time.Time) (first time.Time) {
	n.change(req, func(e *note) {
		if e.due.IsZero() {
			e.due = now
		}
		first = e.due
	})
	return first
}

// settle notes that the workload does not have to roll.
func (n *notebook) settle(req setpoint.Request) {
	n.change(req, func(e *note) { e.due = time.Time{} })
}

// forget drops all that is known of a workload.
func (n *notebook) forget(req setpoint.Request) {
	n.change(req, func(e *note) { *e = note{} })
}

// news returns the problems that were not among those of the last call, and notes these.
func (n *notebook) news(req setpoint.Request, problems []string) (news []string) {
	n.change(req, func(e *note) {
		for _, p := range problems {
			if !slices.Contains(e.said, p) {
				news = append(news, p)
			}
		}
		e.said = problems
	})
	return news
}

func (n *notebook) dryMemory(req setpoint.Request) (m *memory) {
	n.change(req, func(e *note) { m = e.dry })
	return m
}

func (n *notebook) setDryMemory(req setpoint.Request, m *memory) {
	n.change(req, func(e *note) { e.dry = m })
}
