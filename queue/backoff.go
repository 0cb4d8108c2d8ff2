package queue

import "time"

// Backoff spaces the retries of one key: Base after the first failure, twice as long after each further one, never more
// than Max.
type Backoff struct {
	Base time.Duration // zero means 5 ms
	Max  time.Duration // zero means 1000 s
}

// A Bucket limits how many retries start, over all keys: Burst at once, and Rate per second in the long run.
type Bucket struct {
	Rate  float64 // zero means no limit
	Burst int     // zero means 1
}
