package queue

import "time"

// clock returns the time since the queue was made. It is read before the lock is taken, to hold that shortly; tick sorts
// out the order of such readings.
func (q *Queue[K]) clock() int64 { return int64(time.Since(q.start)) }

// wallClock turns times of the queue into times of day. The two drift apart when somebody sets the clock or the
// machine sleeps, so it is set anew at least once a second of use.
type wallClock struct {
	base  time.Time // the time of day of the queue's zero
	setAt int64
}

func (w *wallClock) set(now time.Time, at int64) {
	w.base, w.setAt = now.Add(-time.Duration(at)), at
}

func (q *Queue[K]) wallTime(at int64) time.Time { return q.wall.base.Add(time.Duration(at)) }

// tick lets happen what time alone brings about until now, in the order of its times: slack is used up, plans and
// retries come due, tokens arrive. Everything else happens after a tick, so that the order of work never depends on how
// late it was noticed that something was due.
func (q *Queue[K]) tick(now int64) {
	q.now = max(q.now, now)
	if q.now-q.wall.setAt > int64(time.Second) {
		q.wall.set(time.Now(), q.clock())
	}
	for {
		e, at := q.order.nextDue(), int64(never)
		if e != nil {
			at = e.deadline
		}
		plan, token := q.agenda.next(), q.nextToken()
		if min(at, plan, token) > q.now {
			return
		}
		switch {
		case at <= plan && at <= token:
			q.order.expire(e)
			q.cancel(e)
		case plan <= token:
			q.fire(q.agenda.heap[0].entry, plan)
		default:
			q.grant(token)
		}
	}
}

// nextToken returns when a throttled retry gets its token, or never.
func (q *Queue[K]) nextToken() int64 {
	if q.throttled == 0 {
		return never
	}
	return q.bucket.at()
}

// arm sets the timer to the next time at which a key becomes able to run without anybody calling the queue. Slack needs
// none: an early key is handed out as soon as somebody asks.
func (q *Queue[K]) arm() {
	next := min(q.agenda.next(), q.nextToken())
	if next >= q.armed {
		return // also when it fires too early: wake arms it again
	}
	q.armed = next
	wait := time.Duration(next - q.now)
	if q.timer == nil {
		q.timer = time.AfterFunc(wait, q.wake)
		return
	}
	q.timer.Reset(wait)
}

func (q *Queue[K]) wake() {
	now := q.clock()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shut {
		return
	}
	q.armed = never
	q.tick(now)
	q.dispatch()
	q.arm()
}
