package setpoint_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/apitest"
)

// strangerAgent is the user agent of all changes that do not come from the controller.
const strangerAgent = "stranger"

// books hold what was written at the server, by object: what came from outside is the cause of what the
// controller may write.
type books struct {
	t *testing.T

	mu       sync.Mutex
	revision int64
	accounts map[string]*account
	writes   int // of the controller that were served
	faults   map[apitest.Fault]int
}

// account counts the writes of one tank and its child.
type account struct {
	// From outside.
	made, changed, deleted int // the tank
	drifted, lost          int // the child

	// By the controller, those that changed something.
	finalizers, statuses, children int
	// By the controller, those that did not.
	idle, refused, exists int
	// Faults that it met.
	faults int
}

// outside is what happened to the tank and its child without the controller.
func (a *account) outside() int { return a.made + a.changed + a.deleted + a.drifted + a.lost }

func newBooks(t *testing.T, objects int) *books {
	b := &books{t: t, accounts: map[string]*account{}, faults: map[apitest.Fault]int{}}
	for n := range objects {
		b.accounts[tankName(n)] = &account{}
	}
	return b
}

// note is told of each request that the server served.
func (b *books) note(q apitest.Request, o apitest.Outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if o.Revision > 0 {
		b.revision++
		if o.Revision != b.revision {
			b.t.Errorf("%v made revision %d after %d: who made those between?", q, o.Revision, b.revision-1)
			b.revision = o.Revision
		}
	}
	if q.Verb == "get" || q.Verb == "list" {
		return
	}
	a := b.accounts[o.Name]
	switch {
	case q.UserAgent == strangerAgent:
		a.fromOutside(q, o)
	case a == nil:
		b.t.Errorf("the controller wrote %v", q)
	default:
		b.writes++
		a.byController(q, o)
	}
}

// fault is told of each fault that the controller met.
func (b *books) fault(path string, met apitest.Fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults[met]++
	for _, part := range strings.Split(path, "/") {
		if a := b.accounts[part]; a != nil {
			a.faults++
		}
	}
}

func (a *account) fromOutside(q apitest.Request, o apitest.Outcome) {
	switch {
	case o.Revision == 0:
	case q.Resource == tanks.Resource && q.Verb == "create":
		a.made++
	case q.Resource == tanks.Resource && q.Verb == "delete":
		a.deleted++
	case q.Resource == tanks.Resource:
		a.changed++
	case q.Verb == "delete":
		a.lost++
	default:
		a.drifted++
	}
}

func (a *account) byController(q apitest.Request, o apitest.Outcome) {
	switch {
	case q.Verb == "create" && o.Code == 409:
		a.exists++
	case o.Code >= 400:
		a.refused++
	case o.Revision == 0:
		a.idle++
	case q.Resource == tanks.Resource && q.Subresource == "status":
		a.statuses++
	case q.Resource == tanks.Resource:
		a.finalizers++
	default:
		a.children++
	}
}

// changes returns how many there were at the server.
func (b *books) changes() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.revision
}

// check finds writes without a cause.
func (b *books) check() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(b.accounts)) {
		a := b.accounts[name]
		idle := 0
		if applies(name) {
			// An apply is sent again whenever the cache may be behind, at most as often as there is reason to reconcile.
			idle = a.outside() + a.faults + a.refused + a.finalizers + a.statuses + a.children
		}
		for _, rule := range []struct {
			what        string
			count, most int
		}{
			{"patches of the finalizers", a.finalizers, a.made + a.deleted},
			{"patches of the status", a.statuses, 2*a.made + a.changed},
			{"changes of the child", a.children, a.outside()},
			{"writes that were refused", a.refused, a.outside()},
			{"writes that changed nothing", a.idle, idle},
			{"creations of what existed", a.exists, 0},
		} {
			if rule.count > rule.most {
				b.t.Errorf("%s: %d %s, want at most %d: %+v", name, rule.count, rule.what, rule.most, *a)
			}
		}
	}
}

// report says what there was, so that one sees that it was enough.
func (b *books) report() {
	b.mu.Lock()
	defer b.mu.Unlock()
	var sum account
	for _, a := range b.accounts {
		sum.made += a.made
		sum.changed += a.changed
		sum.deleted += a.deleted
		sum.drifted += a.drifted
		sum.lost += a.lost
		sum.finalizers += a.finalizers
		sum.statuses += a.statuses
		sum.children += a.children
		sum.refused += a.refused
		sum.idle += a.idle
		sum.faults += a.faults
	}
	b.t.Logf("%d changes, %d writes of the controller: %+v", b.revision, b.writes, sum)
	var met []string
	for _, fault := range apitest.AllFaults() {
		met = append(met, fmt.Sprintf("%s %d", fault, b.faults[fault]))
		if b.faults[fault] == 0 {
			b.t.Errorf("no request met the fault %q", fault)
		}
	}
	b.t.Logf("faults: %s", strings.Join(met, ", "))
}
