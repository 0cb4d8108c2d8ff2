package queue

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// model is the queue once more, written for obviousness: plain slices, searched from end to end, on a clock that it is
// told. It is what the queue is compared with.
type model struct {
	flows   bool
	slack   [Classes]time.Duration
	backoff Backoff
	rate    time.Duration // between two tokens; 0: no bucket
	burst   int

	now       time.Duration
	keys      map[string]*modelKey
	due       []*modelKey // in the order in which they became due
	early     []*modelKey // in the order in which they came
	throttled []*modelKey
	// The flows that take turns in each of the three.
	dueTurns, earlyTurns, throttledTurns []string
	tokensTaken                          []time.Duration // theoretical arrival times, only the last matters
	asks                                 int

	waiters []int // names of the Gets that wait
	given   map[int]modelItem
	running []*modelKey
	adds    uint64
	merged  uint64
	retries uint64
}

type modelKey struct {
	name, flow string
	class      Class
	added      time.Duration
	deadline   time.Duration
	slackClass Class // whose slack gave the deadline
	causes     []Cause
	failures   int

	rerun bool
	plan  *time.Duration
	retry *time.Duration
	ask   int // order of what is planned, by when it was asked
	later []Cause

	since   time.Duration
	reasons []Cause
}

type modelItem struct {
	key      string
	causes   []Cause
	class    Class
	failures int
	added    time.Duration
}

func (m *model) key(name string) *modelKey {
	if k, ok := m.keys[name]; ok {
		return k
	}
	k := &modelKey{name: name}
	if m.flows {
		k.flow = flowOf(name)
	}
	m.keys[name] = k
	return k
}

// flowOf is the flow of a key in tests: what stands before the slash.
func flowOf(key string) string { return key[:strings.Index(key, "/")] }

func (m *model) add(name string, class Class, c Cause) {
	k := m.key(name)
	k.causes = m.merge(k.causes, c, m.now)
	m.arrive(k, class, m.now)
	m.dispatch()
}

func (m *model) addAfter(name string, d time.Duration, c Cause) {
	if d <= 0 {
		m.add(name, Planned, c)
		return
	}
	k := m.key(name)
	if slices.Contains(m.due, k) {
		return
	}
	at := m.now + d
	if k.plan == nil || *k.plan > at {
		m.reask(k, func() { k.plan = &at })
	}
	k.later = m.merge(k.later, c, m.now)
}

func (m *model) addRateLimited(name string, c Cause) {
	k := m.key(name)
	k.failures++
	m.retries++
	if slices.Contains(m.due, k) {
		return
	}
	wait := m.backoff.Base
	for range k.failures - 1 {
		wait = min(2*wait, m.backoff.Max)
	}
	at := m.now + min(wait, m.backoff.Max)
	if !slices.Contains(m.throttled, k) && (k.retry == nil || *k.retry > at) {
		m.reask(k, func() { k.retry = &at })
	}
	k.later = m.merge(k.later, c, m.now)
}

func (m *model) forget(name string) { m.key(name).failures = 0 }

// reask changes what is planned; the key goes to the end of its equals when its next time is another one after it.
func (m *model) reask(k *modelKey, change func()) {
	before, hadBefore := k.next()
	change()
	if after, has := k.next(); has && (!hadBefore || after != before) {
		m.asks++
		k.ask = m.asks
	}
}

func (k *modelKey) next() (time.Duration, bool) {
	switch {
	case k.plan == nil && k.retry == nil:
		return 0, false
	case k.plan == nil:
		return *k.retry, true
	case k.retry == nil:
		return *k.plan, true
	default:
		return min(*k.plan, *k.retry), true
	}
}

func (m *model) arrive(k *modelKey, class Class, at time.Duration) {
	switch {
	case k.rerun:
		m.merged++
		k.class = min(k.class, class)
	case slices.Contains(m.due, k):
		m.merged++
		k.class = min(k.class, class)
	case slices.Contains(m.early, k):
		m.merged++
		k.class = min(k.class, class)
		if at+m.slack[class] < k.deadline {
			m.leave(&m.early, &m.earlyTurns, k)
			m.settle(k, class, at)
		}
	case slices.Contains(m.running, k):
		m.adds++
		k.rerun, k.class = true, class
	default:
		m.adds++
		m.place(k, class, at)
	}
}

func (m *model) place(k *modelKey, class Class, at time.Duration) {
	k.added, k.class = at, class
	m.settle(k, class, at)
}

func (m *model) settle(k *modelKey, class Class, at time.Duration) {
	k.deadline, k.slackClass = at+m.slack[class], class
	if m.slack[class] == 0 {
		m.enter(&m.due, &m.dueTurns, k)
		m.dropPlans(k)
		return
	}
	m.enter(&m.early, &m.earlyTurns, k)
}

func (m *model) enter(line *[]*modelKey, turns *[]string, k *modelKey) {
	*line = append(*line, k)
	if !slices.Contains(*turns, k.flow) {
		*turns = append(*turns, k.flow)
	}
}

func (m *model) leave(line *[]*modelKey, turns *[]string, k *modelKey) {
	*line = slices.DeleteFunc(*line, func(other *modelKey) bool { return other == k })
	if !slices.ContainsFunc(*line, func(other *modelKey) bool { return other.flow == k.flow }) {
		*turns = slices.DeleteFunc(*turns, func(flow string) bool { return flow == k.flow })
	}
}

func (m *model) dropPlans(k *modelKey) {
	k.plan, k.retry, k.later = nil, nil, nil
	if slices.Contains(m.throttled, k) {
		m.leave(&m.throttled, &m.throttledTurns, k)
	}
}

// turn takes the flow whose turn it is to the back and returns the first of its keys in the given order.
func turn(line []*modelKey, turns *[]string, order func(a, b *modelKey) int) *modelKey {
	flow := (*turns)[0]
	*turns = append((*turns)[1:], flow)
	var own []*modelKey
	for _, k := range line {
		if k.flow == flow {
			own = append(own, k)
		}
	}
	slices.SortStableFunc(own, order)
	return own[0]
}

func asTheyCame(a, b *modelKey) int { return 0 }

func (m *model) byDeadline(a, b *modelKey) int {
	return cmp.Or(
		cmp.Compare(a.deadline, b.deadline),
		cmp.Compare(m.slack[b.slackClass], m.slack[a.slackClass]),
		cmp.Compare(a.slackClass, b.slackClass),
	)
}

// advance lets time pass, one event after the other.
func (m *model) advance(to time.Duration) {
	for {
		at, event := m.nextEvent()
		if event == nil || at > to {
			break
		}
		m.now = max(m.now, at)
		event()
		if next, _ := m.nextEvent(); next > at || next < 0 {
			m.dispatch()
		}
	}
	m.now = to
}

// nextEvent returns the next thing that happens by time alone; the time is less than zero when there is none.
func (m *model) nextEvent() (time.Duration, func()) {
	var at time.Duration = -1
	var event func()
	offer := func(t time.Duration, do func()) {
		if event == nil || t < at {
			at, event = t, do
		}
	}
	early := slices.Clone(m.early)
	slices.SortStableFunc(early, m.byDeadline)
	if len(early) > 0 {
		k := early[0]
		offer(k.deadline, func() {
			m.leave(&m.early, &m.earlyTurns, k)
			m.enter(&m.due, &m.dueTurns, k)
			m.dropPlans(k)
		})
	}
	if planned := m.planned(); len(planned) > 0 {
		k := planned[0]
		t, _ := k.next()
		offer(t, func() { m.fire(k, t) })
	}
	if len(m.throttled) > 0 {
		t := m.tokenAt()
		offer(t, func() {
			k := turn(m.throttled, &m.throttledTurns, asTheyCame)
			m.leave(&m.throttled, &m.throttledTurns, k)
			m.takeToken(t)
			m.expire(k, Retry, t)
		})
	}
	return at, event
}

// planned returns the keys that have something planned, in the order of its times.
func (m *model) planned() []*modelKey {
	var planned []*modelKey
	for _, k := range m.keys {
		if _, ok := k.next(); ok {
			planned = append(planned, k)
		}
	}
	slices.SortFunc(planned, func(a, b *modelKey) int {
		x, _ := a.next()
		y, _ := b.next()
		return cmp.Or(cmp.Compare(x, y), cmp.Compare(a.ask, b.ask))
	})
	return planned
}

func (m *model) fire(k *modelKey, at time.Duration) {
	if k.plan != nil && *k.plan <= at {
		m.reask(k, func() { k.plan = nil })
		m.expire(k, Planned, at)
		return
	}
	m.reask(k, func() { k.retry = nil })
	if m.rate > 0 {
		if len(m.throttled) > 0 || m.tokenAt() > at {
			m.enter(&m.throttled, &m.throttledTurns, k)
			return
		}
		m.takeToken(at)
	}
	m.expire(k, Retry, at)
}

func (m *model) expire(k *modelKey, class Class, at time.Duration) {
	for _, c := range k.later {
		k.causes = m.merge(k.causes, c, at)
	}
	k.later = nil
	m.arrive(k, class, at)
}

// tokenAt returns when a token is there: the last burst tokens must not have been taken within burst intervals.
func (m *model) tokenAt() time.Duration {
	if len(m.tokensTaken) == 0 {
		return 0
	}
	return m.tokensTaken[len(m.tokensTaken)-1] + m.rate - time.Duration(m.burst-1)*m.rate
}

func (m *model) takeToken(at time.Duration) {
	slot := at
	if n := len(m.tokensTaken); n > 0 {
		slot = max(at, m.tokensTaken[n-1]+m.rate)
	}
	m.tokensTaken = append(m.tokensTaken, slot)
}

// get hands out the next key, if there is one.
func (m *model) get() (modelItem, bool) {
	var k *modelKey
	switch {
	case len(m.due) > 0:
		k = turn(m.due, &m.dueTurns, asTheyCame)
		m.leave(&m.due, &m.dueTurns, k)
	case len(m.early) > 0:
		k = turn(m.early, &m.earlyTurns, m.byDeadline)
		m.leave(&m.early, &m.earlyTurns, k)
	default:
		return modelItem{}, false
	}
	m.dropPlans(k)
	item := modelItem{key: k.name, causes: k.causes, class: k.class, failures: k.failures, added: k.added}
	k.reasons, k.causes, k.since = k.causes, nil, m.now
	m.running = append(m.running, k)
	return item, true
}

func (m *model) wait(waiter int) {
	m.waiters = append(m.waiters, waiter)
	m.dispatch()
}

func (m *model) dispatch() {
	for len(m.waiters) > 0 {
		item, ok := m.get()
		if !ok {
			return
		}
		m.given[m.waiters[0]] = item
		m.waiters = m.waiters[1:]
	}
}

func (m *model) done(name string) {
	k := m.key(name)
	m.running = slices.DeleteFunc(m.running, func(other *modelKey) bool { return other == k })
	if k.rerun {
		k.rerun = false
		m.place(k, k.class, m.now)
		m.dispatch()
	}
}

func (m *model) merge(causes []Cause, c Cause, now time.Duration) []Cause {
	if c.First.IsZero() {
		c.First, c.Last, c.Count = epoch.Add(now), epoch.Add(now), 1
	}
	same := func(other Cause) bool {
		return other.Source == c.Source && other.Kind == c.Kind && other.Object == c.Object && other.Verb == c.Verb
	}
	i := slices.IndexFunc(causes, same)
	if i < 0 && len(causes) >= MaxCauses {
		c = Cause{Source: Other, First: c.First, Last: c.Last, Count: c.Count}
		i = slices.IndexFunc(causes, same)
	}
	if i < 0 {
		return append(causes, c)
	}
	causes[i].Count += c.Count
	causes[i].Version = c.Version
	if c.First.Before(causes[i].First) {
		causes[i].First = c.First
	}
	if c.Last.After(causes[i].Last) {
		causes[i].Last = c.Last
	}
	return causes
}

// epoch is when a synctest bubble begins, which is when the queue under test is made.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func (m *model) stats() Stats {
	s := Stats{
		Delayed:   len(m.planned()),
		Throttled: len(m.throttled),
		Running:   len(m.running),
		Adds:      m.adds,
		Merged:    m.merged,
		Retries:   m.retries,
	}
	for _, k := range slices.Concat(m.due, m.early) {
		s.Ready[k.class]++
	}
	for _, k := range m.running {
		if k.rerun {
			s.Rerun++
		}
		s.Unfinished += m.now - k.since
		s.Longest = max(s.Longest, m.now-k.since)
	}
	return s
}
