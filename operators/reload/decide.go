package reload

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// observed is a source that a workload follows, as it is now.
type observed struct {
	// entry has an empty hash when the source does not exist.
	entry
	// optional: the template refers to it, and Pods start without it.
	optional bool
	// appeared: it is followed by a regular expression, and was created after the workload was first seen.
	appeared bool
}

// The reasons to roll.
const (
	changed = "changed"
	created = "created"
	deleted = "deleted"
)

// change is one reason to roll.
type change struct {
	source source
	reason string
}

// decision is what follows from what is remembered and what is seen.
type decision struct {
	// next is what to remember, in the same write as the roll if there is one.
	next map[source]entry
	// changes are the reasons to roll, by source; none: do not.
	changes []change
	// left is how many sources are beyond maxSources and not followed.
	left int
}

// decide compares what is remembered with what is seen. A source that was never seen before gives the baseline: it rolls
// nothing.
//
// A deletion rolls nothing unless that is asked for, and what was there stays remembered, so that a source which comes
// back with the same content is no change. A source that comes into being rolls the workload when that is asked for, or
// when its Pods may be running without it because all their references to it are optional.
func decide(before *memory, seen map[source]observed, p *policy) decision {
	var remembered map[source]entry
	if before != nil {
		remembered = before.Sources
	}
	d := decision{next: map[source]entry{}}
	sources := slices.SortedFunc(maps.Keys(seen), func(a, b source) int {
		if gone := (seen[a].hash == "") != (seen[b].hash == ""); gone { // those that exist come first
			return strings.Compare(seen[b].hash, seen[a].hash)
		}
		return a.compare(b)
	})
	if len(sources) > maxSources {
		d.left = len(sources) - maxSources
		sources = sources[:maxSources]
	}
	for _, s := range sources {
		now := seen[s]
		was, known := remembered[s]
		reason := ""
		d.next[s], reason = step(was, known, now, p)
		if reason != "" {
			d.changes = append(d.changes, change{s, reason})
		}
	}
	slices.SortFunc(d.changes, func(a, b change) int { return a.source.compare(b.source) })
	return d
}

// step decides about one source: what to remember of it, and the reason to roll, if there is one.
func step(was entry, known bool, now observed, p *policy) (entry, string) {
	switch {
	case !known && now.appeared && p.onCreate:
		return now.entry, created
	case !known:
		return now.entry, ""
	case now.hash == "" && was.hash == "":
		return was, ""
	case now.hash == "" && p.onDelete:
		return now.entry, deleted
	case now.hash == "":
		return was, ""
	case was.hash == "" && (p.onCreate || now.optional):
		return now.entry, created
	case was.hash == "":
		return now.entry, ""
	case was.hash != now.hash:
		return now.entry, changed
	}
	return was, ""
}

// describe says in words why a workload is rolled.
func describe(changes []change) string {
	const shown = 10
	var words []string
	for i, c := range changes {
		if i == shown {
			words = append(words, fmt.Sprintf("and %d more", len(changes)-shown))
			break
		}
		words = append(words, fmt.Sprintf("%s %s was %s", c.source.kind, c.source.name, c.reason))
	}
	return strings.Join(words, ", ")
}
