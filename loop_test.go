package setpoint

import (
	"testing"

	"github.com/setpoint-dev/setpoint/queue"
)

// A reconcile that outlasts the loss of its shard ends after what was known of its
// key was dropped.
func TestLoopIsForgottenWhileItsKeyRuns(t *testing.T) {
	var l loops
	req := Request{Name: "busy"}
	own := queue.Cause{Kind: "ConfigMap", Object: req.String()}
	wrote := writes{objectID(own.Kind, own.Object): true}
	l.end(req, wrote, false)
	selfTriggered := l.begin(req, []queue.Cause{own})
	if !selfTriggered {
		t.Fatal("what it wrote itself does not count as its cause")
	}
	l.forget(func(Request) bool { return true })
	if found := l.end(req, wrote, selfTriggered); found.streak != 0 {
		t.Errorf("it woke itself %d times, of what is not known any more", found.streak)
	}
}
