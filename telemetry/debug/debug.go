// Package debug has what a manager's debug endpoint answers, as its server writes
// it and clients such as `setpoint why` read it: an Overview of all, and the Story
// of one object. Times are the manager's, durations are in seconds. Fields may be
// added; none changes its meaning.
package debug

import (
	"fmt"
	"strings"
	"time"
)

// The paths of the endpoint.
const (
	// PathOverview answers an Overview: as JSON, or as a page for people when the
	// request prefers text/html.
	PathOverview = "/debug/setpoint"
	// PathObject answers the Story of the object that the query names: kind (a
	// kind or resource, as "Foo", "foos" or "foo.sample.setpoint.dev"), namespace
	// and name; cluster is empty for the manager's own.
	PathObject = "/debug/setpoint/object"
	// PathRoles answers the roles that the manager needs, as YAML.
	PathRoles = "/debug/setpoint/rbac"
)

// Overview is the state of a manager.
type Overview struct {
	Instance    string       `json:"instance"`
	Leadership  Leadership   `json:"leadership"`
	Controllers []Controller `json:"controllers"` // in the order of their declaration
	Cache       []Kind       `json:"cache"`       // by kind
}

// Leadership is what a manager may work on, and until when for sure.
type Leadership struct {
	// Mode is "none" (no election, everything is worked on), "election" or "shards".
	Mode    string `json:"mode"`
	Leading bool   `json:"leading"`
	// Leases are the lease of the election, or those of the shards, in order.
	Leases []Lease `json:"leases,omitempty"`
	// Members are the replicas that share the shards, as this one saw them last.
	Members []string `json:"members,omitempty"`
	Problem string   `json:"problem,omitempty"`
}

// Lease is a lease of the election or of a shard.
type Lease struct {
	Shard  int    `json:"shard"`
	Held   bool   `json:"held"`
	Holder string `json:"holder,omitempty"`
	// Fence is until when writes may start, while it is held.
	Fence *time.Time `json:"fence,omitempty"`
}

// Controller is the state of a controller.
type Controller struct {
	Name    string  `json:"name"`
	Kind    string  `json:"kind"`              // of its objects, as "Deployment.apps"
	Problem string  `json:"problem,omitempty"` // why it does not work
	Paused  bool    `json:"paused,omitempty"`
	Workers int     `json:"workers"` // in each cluster
	Watches []Watch `json:"watches"`
	// Ready counts the objects that could run, by class, Delayed those whose time
	// has not come, and Parked the requests kept for shards that are not held.
	Ready   map[string]int `json:"ready"`
	Delayed int            `json:"delayed"`
	Parked  int            `json:"parked,omitempty"`
	Running []Item         `json:"running"` // the longest first, at most 100
	Waiting []Item         `json:"waiting"` // the next first, at most 100
}

// Watch is a watched kind of a controller.
type Watch struct {
	Cluster string `json:"cluster,omitempty"` // empty: the manager's own
	Source  string `json:"source"`            // "For", "Owns", "Watches" or "Reads"
	Kind    string `json:"kind"`
	Synced  bool   `json:"synced"` // its first listing came
	Error   string `json:"error,omitempty"`
}

// Item is an object that runs or waits.
type Item struct {
	Object      string     `json:"object"`
	ReconcileID string     `json:"reconcileID,omitempty"`
	State       string     `json:"state"`           // "running", "ready", "delayed" or "throttled"
	Class       string     `json:"class,omitempty"` // "fresh", "planned", "retry" or "listed"
	Since       *time.Time `json:"since,omitempty"` // when it began to run, or became able to
	Due         *time.Time `json:"due,omitempty"`   // when it runs at the latest, or its time comes
	Failures    int        `json:"failures,omitempty"`
	Causes      []Cause    `json:"causes"`
}

// Kind is what the cache holds of a kind.
type Kind struct {
	Cluster string `json:"cluster,omitempty"` // empty: the manager's own
	Kind    string `json:"kind"`
	Objects int    `json:"objects"`
	Bytes   int64  `json:"bytes"`
	Error   string `json:"error,omitempty"` // what its watch suffers from
}

// Cause is a reason for a reconcile.
type Cause struct {
	Source  string    `json:"source"`            // "For", "Owns", "Watches", "Retry", "After", …
	Kind    string    `json:"kind,omitempty"`    // of the object that changed
	Object  string    `json:"object,omitempty"`  // that changed
	Verb    string    `json:"verb,omitempty"`    // "added", "modified" or "deleted"
	Version string    `json:"version,omitempty"` // its resourceVersion after the change
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
	Count   int       `json:"count"`
}

// String says the cause in a line: "Owns Deployment.apps default/web modified (3
// times)".
func (c Cause) String() string {
	words := []string{c.Source}
	for _, word := range []string{c.Kind, c.Object, c.Verb} {
		if word != "" {
			words = append(words, word)
		}
	}
	if c.Count > 1 {
		words = append(words, fmt.Sprintf("(%d times)", c.Count))
	}
	return strings.Join(words, " ")
}

// Story is what the controllers of a manager know of one object.
type Story struct {
	Instance string `json:"instance"`
	// Kind is the object's, as far as the manager knows the kind, or as it was
	// asked for.
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Exists says whether the cache has the object; nil when it does not cover it.
	Exists *bool `json:"exists,omitempty"`
	// Controllers reconcile objects of the kind. Empty: none of this manager does.
	Controllers []Chapter `json:"controllers"`
	// Others are reconciles of other objects that the object caused or that wrote
	// it, the latest first.
	Others []Reconcile `json:"others"`
}

// Chapter is what one controller knows of an object.
type Chapter struct {
	Controller string `json:"controller"`
	Problem    string `json:"problem,omitempty"` // why the controller does not work
	// Paused is "object" by its annotation, "controller" by the program, or empty.
	Paused string `json:"paused,omitempty"`
	// Held says whether this replica may reconcile the object, Shard which shard
	// it is in, and Holder who holds that, as far as it is known.
	Held   bool   `json:"held"`
	Shard  int    `json:"shard"`
	Holder string `json:"holder,omitempty"`
	Parked bool   `json:"parked,omitempty"` // kept until its shard is held
	// Now is how the object runs or waits; nil: it waits for a change. Next is what
	// is planned for it apart from that.
	Now  *Item `json:"now,omitempty"`
	Next *Item `json:"next,omitempty"`
	// Reconciles are the last ones, the latest first.
	Reconciles []Reconcile `json:"reconciles"`
}

// Reconcile is one that has ended.
type Reconcile struct {
	ID         string    `json:"id"`
	Controller string    `json:"controller"`
	Kind       string    `json:"kind"`
	Object     string    `json:"object"`
	Began      time.Time `json:"began"`
	Waited     float64   `json:"waited"`   // seconds that it could have run before
	Duration   float64   `json:"duration"` // seconds
	Causes     []Cause   `json:"causes"`
	// Result is "success", "error", "requeue", "requeue_after" or, when the
	// reconciler was not called, "skipped"; Text says it in words.
	Result string  `json:"result"`
	Text   string  `json:"text"`
	Error  string  `json:"error,omitempty"`
	After  float64 `json:"after,omitempty"` // seconds to the next one, when it is planned
	// Writes are those that were sent, in order, at most 16; Unlisted counts more.
	Writes   []Write `json:"writes"`
	Unlisted int     `json:"unlisted,omitempty"`
	TraceID  string  `json:"traceID,omitempty"`
}

// Write is a write of a reconcile.
type Write struct {
	Verb        string `json:"verb"`
	Kind        string `json:"kind"`
	Subresource string `json:"subresource,omitempty"`
	Object      string `json:"object"`
	// Fields are those that a patch or an apply named, at most 8.
	Fields  []string `json:"fields,omitempty"`
	Version string   `json:"version,omitempty"` // the resourceVersion that it led to
	Error   string   `json:"error,omitempty"`
}
