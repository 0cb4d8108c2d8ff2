package queue

import "time"

// MaxCauses is the number of different causes that a waiting key keeps. Further ones are counted together in the last,
// whose Source is then [Other].
const MaxCauses = 8

// Other is the Source of the cause that stands for all those beyond MaxCauses.
const Other = "Other"

// A Cause is a reason why a key was added. Causes of a waiting key that agree in Source, Kind, Object and Verb
// are merged: Count adds up, First and Last span them, Version is that of the latest.
type Cause struct {
	Source  string // what called: "For", "Owns", "Watches", "Retry", "After", "External", …
	Kind    string // the kind of the object that changed: "Deployment.apps"
	Object  string // the object that changed: "namespace/name"
	Verb    string // what happened to it: "added", "modified", "deleted"
	Version string // its resourceVersion after the change
	// First and Last are when it happened. The queue sets them when they are zero.
	First, Last time.Time
	// Count is how often; zero counts as one.
	Count int
}
