package queue

import "time"

// A Class says how urgent a piece of work is. It gives the work its slack: how much later than a fresh change of the
// same moment it may start. Smaller is more urgent.
type Class uint8

const (
	// Fresh is a change that just happened. It has no slack.
	Fresh Class = iota
	// Planned is work that was put off with AddAfter and is due.
	Planned
	// Retry is work that failed and whose back-off is over.
	Retry
	// Listed is work found by listing: at start-up, after a take-over, by a periodic resync.
	Listed

	// Classes is the number of classes.
	Classes = 4
)

// String returns the class in lower case, as it appears in metrics.
func (c Class) String() string {
	return [...]string{"fresh", "planned", "retry", "listed"}[c]
}

// Slack is how much later than a fresh change each class may start: work of a class that became able to run at a time t
// goes before everything of its flow that comes after t + slack. Zero means the default, less than zero means none.
type Slack struct {
	Planned time.Duration // default 1 s
	Retry   time.Duration // default 1 s
	Listed  time.Duration // default 1 minute
}

func (s Slack) byClass() [Classes]int64 {
	choose := func(d, otherwise time.Duration) int64 {
		if d == 0 {
			d = otherwise
		}
		return int64(max(d, 0))
	}
	return [Classes]int64{
		Planned: choose(s.Planned, time.Second),
		Retry:   choose(s.Retry, time.Second),
		Listed:  choose(s.Listed, time.Minute),
	}
}
