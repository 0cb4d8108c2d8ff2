package queue

import "time"

// Stats are the queue's figures at one moment.
type Stats struct {
	Ready      [Classes]int  // keys that could run now, by class
	Delayed    int           // keys that wait for their time
	Throttled  int           // keys whose retry is due and waits for the bucket
	Rerun      int           // keys that run and will run once more
	Running    int           // keys that are handed out and not done
	Adds       uint64        // keys that became able to run, ever
	Merged     uint64        // adds that met a key that could run already, ever
	Retries    uint64        // AddRateLimited calls, ever
	Unfinished time.Duration // ages of all running keys together
	Longest    time.Duration // age of the oldest running key
}

// A Snapshot is what the queue holds at one moment, for people who look for what is stuck.
type Snapshot[K comparable] struct {
	Stats   Stats
	Running []Running[K] // longest first
	Waiting []Waiting[K] // ready ones by due time, then the others by due time
}

// Running is a key that was handed out and is not done.
type Running[K comparable] struct {
	Key    K
	Since  time.Time
	Causes []Cause // why it runs
	Rerun  bool    // it will run once more
}

// Waiting is a key that was not handed out yet.
type Waiting[K comparable] struct {
	Key      K
	Flow     string
	State    string // "ready", "delayed", "throttled" or "rerun"
	Class    Class
	Causes   []Cause
	Failures int
	Since    time.Time // when it was added
	Due      time.Time // when it should run at the latest
}
