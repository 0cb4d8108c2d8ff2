package queue

import (
	"context"
	"errors"
	"time"
)

// ErrShutDown is what Get returns once ShutDown or Drain was called.
var ErrShutDown = errors.New("queue is shut down")

// A Config is what a queue is made from. The zero value is ready to use: one flow, the default back-off and slacks,
// no overall limit on retries.
type Config[K comparable] struct {
	// Flow names the flow that a key belongs to. Flows share the queue fairly: a flow with a great many waiting keys
	// delays the others no more than one with a few. Nil puts all keys in one flow. It must always answer the same for
	// the same key and must not call the queue.
	Flow func(K) string
	// Slack is how much later than a fresh change each class of work may start.
	Slack Slack
	// Backoff spaces the retries of one key.
	Backoff Backoff
	// Retries limits the retries of all keys together.
	Retries Bucket
	// Waited, when set, is called for each key that is handed out, with the time that it waited although it could run.
	Waited func(Class, time.Duration)
	// Worked, when set, is called for each Done, with the time since the key was handed out.
	Worked func(time.Duration)
}

// An Item is a key that was handed out, with all that is known about why. The receiver owns it.
type Item[K comparable] struct {
	Key K
	// Causes are the reasons for this run, in the order in which they first came, merged as [Cause] says.
	Causes []Cause
	// Class is the most urgent class that the key was added with since it last ran.
	Class Class
	// Failures is the number of AddRateLimited calls since the last Forget.
	Failures int
	// Added is when the key became able to run.
	Added time.Time
}

// A Queue hands keys to workers. All its methods may be called from several goroutines at once. The package
// comment states what it guarantees.
type Queue[K comparable] struct{}

// New returns an empty queue. It starts no goroutine; ShutDown or Drain release its timer.
func New[K comparable](config Config[K]) *Queue[K] { panic("not yet") }

// Add asks for the key to be handed out as soon as its turn comes.
func (q *Queue[K]) Add(key K, class Class, cause Cause) { panic("not yet") }

// AddAfter plans the key for d from now.
func (q *Queue[K]) AddAfter(key K, d time.Duration, cause Cause) { panic("not yet") }

// AddRateLimited counts a failure of the key and plans it for the end of its back-off.
func (q *Queue[K]) AddRateLimited(key K, cause Cause) { panic("not yet") }

// Forget sets the failures of the key to zero.
func (q *Queue[K]) Forget(key K) { panic("not yet") }

// Get waits for a key and hands it out. The caller must call Done with the key when it has finished.
func (q *Queue[K]) Get(ctx context.Context) (Item[K], error) { panic("not yet") }

// Done reports that the work on a key that Get handed out is finished.
func (q *Queue[K]) Done(key K) { panic("not yet") }

// ShutDown ends the queue at once: waiting keys are dropped and every Get returns ErrShutDown.
func (q *Queue[K]) ShutDown() { panic("not yet") }

// Drain shuts the queue down and waits until every key that was handed out is Done, or ctx ends.
func (q *Queue[K]) Drain(ctx context.Context) error { panic("not yet") }

// Len returns the number of keys that wait for a worker.
func (q *Queue[K]) Len() int { panic("not yet") }

// Stats returns the queue's counters and gauges for metrics.
func (q *Queue[K]) Stats() Stats { panic("not yet") }

// Snapshot returns the keys that run and those that wait, at most limit of each.
func (q *Queue[K]) Snapshot(limit int) Snapshot[K] { panic("not yet") }
