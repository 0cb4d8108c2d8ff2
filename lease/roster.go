package lease

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// What the Lease of a ring's member says beside its times.
const (
	ringLabel         = "setpoint.dev/ring"    // the ring's name
	shardsAnnotation  = "setpoint.dev/shards"  // how many shards the member thinks there are
	leavingAnnotation = "setpoint.dev/leaving" // that it is handing over what it holds
)

// forgetAfter is how many of its own durations a member's Lease may stay
// unchanged before the others delete it: what is left of a crash.
const forgetAfter = 4

// roster is what one member has seen of all, by the names of their Leases.
type roster map[string]observation

// see returns the roster after the ring's Leases were listed at now. Those of
// the shards say nothing of how many there are.
func (r roster) see(leases []coordinationv1.Lease, now time.Time) roster {
	next := roster{}
	for i := range leases {
		if leases[i].Annotations[shardsAnnotation] == "" {
			continue
		}
		next[leases[i].Name] = r[leases[i].Name].see(&leases[i], now)
	}
	return next
}

// alive returns the Leases of the members that are alive at now, the oldest
// first: those that were written within the time for which they last.
func (r roster) alive(now time.Time) []*coordinationv1.Lease {
	return r.which(func(o observation) bool { return o.holder() != "" && now.Sub(o.since) < o.duration() })
}

// dead returns the Leases of which nobody will hear again.
func (r roster) dead(now time.Time) []*coordinationv1.Lease {
	return r.which(func(o observation) bool { return now.Sub(o.since) >= forgetAfter*o.duration() })
}

func (r roster) which(what func(observation) bool) []*coordinationv1.Lease {
	var found []*coordinationv1.Lease
	for _, o := range r {
		if what(o) {
			found = append(found, o.lease)
		}
	}
	slices.SortFunc(found, func(a, b *coordinationv1.Lease) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return found
}

// decide returns the members that share the ring, sorted, as me sees it. It
// fails when an older member counts other shards: what that one holds overlaps
// with what me would hold.
func decide(alive []*coordinationv1.Lease, me string, shards int) ([]string, error) {
	members := []string{}
	var disagree error
	older := true
	for _, lease := range alive {
		name := *lease.Spec.HolderIdentity
		older = older && name != me
		switch {
		case name == me:
			continue
		case lease.Annotations[shardsAnnotation] != strconv.Itoa(shards):
			if older && disagree == nil {
				disagree = fmt.Errorf("member %s counts %s shards, this one %d: waiting until it is gone", name, lease.Annotations[shardsAnnotation], shards)
			}
		case lease.Annotations[leavingAnnotation] == "":
			members = append(members, name)
		}
	}
	return members, disagree
}
