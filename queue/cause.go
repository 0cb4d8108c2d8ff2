package queue

import "time"

// MaxCauses is the number of different causes that a waiting key keeps. Further ones are counted together in one more,
// whose Source is [Other].
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

// merge adds c, which came at the given time, to the causes. It fills in what c does not say.
func merge(causes []Cause, c *Cause, now time.Time) []Cause {
	if c.First.IsZero() {
		c.First = now
	}
	if c.Last.IsZero() {
		c.Last = now
	}
	c.Count = max(c.Count, 1)
	if absorbed(causes, c) {
		return causes
	}
	if len(causes) >= MaxCauses {
		c = &Cause{Source: Other, First: c.First, Last: c.Last, Count: c.Count}
		if absorbed(causes, c) {
			return causes
		}
	}
	return append(causes, *c)
}

// absorbed adds c to the cause that it repeats, if there is one.
func absorbed(causes []Cause, c *Cause) bool {
	for i := range causes {
		if causes[i].same(c) {
			causes[i].absorb(c)
			return true
		}
	}
	return false
}

func (c *Cause) same(other *Cause) bool {
	return c.Object == other.Object && c.Source == other.Source && c.Verb == other.Verb && c.Kind == other.Kind
}

func (c *Cause) absorb(other *Cause) {
	c.Count += other.Count
	c.Version = other.Version
	if other.First.Before(c.First) {
		c.First = other.First
	}
	if other.Last.After(c.Last) {
		c.Last = other.Last
	}
}
