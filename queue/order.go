package queue

// The order of work: which of the entries that could run now is next. It knows nothing of clocks, plans and
// workers; the times come in as arguments and never run backwards.
//
// An entry is first early, until its slack is used up, and then due. Due entries go first. Both kinds wait in their
// flow, and the flows take turns: the flow at the front of a ring gives one entry and goes to the back.
type order[K comparable] struct {
	slack   [Classes]int64
	due     list[flow[K]]           // the flows that have due entries, in the order of their turns
	early   list[flow[K]]           // the flows that have early entries, likewise
	byClass [Classes]list[entry[K]] // the early entries of all flows by the class that set their deadline, which is their order
	earlies int                     // in all of byClass
	ready   [Classes]int            // early and due entries by their class
}

func (o *order[K]) init(slack [Classes]int64) {
	o.slack = slack
	o.due.init()
	o.early.init()
	for class := range o.byClass {
		o.byClass[class].init()
	}
}

// place takes in an entry that became able to run at the given time.
func (o *order[K]) place(e *entry[K], class Class, at int64) {
	e.added, e.class = at, class
	o.ready[class]++
	o.settle(e, class, at)
}

// settle puts the entry where its class asks for.
func (o *order[K]) settle(e *entry[K], class Class, at int64) {
	e.deadline = at + o.slack[class]
	if o.slack[class] == 0 {
		o.makeDue(e)
		return
	}
	e.state = early
	f := e.flow
	f.early[class].push(&e.byFlow)
	o.byClass[class].push(&e.byClass)
	o.earlies++
	f.earlies++
	if f.earlies == 1 {
		o.early.push(&f.inEarly)
	}
}

func (o *order[K]) makeDue(e *entry[K]) {
	e.state = due
	f := e.flow
	if f.due.empty() {
		o.due.push(&f.inDue)
	}
	f.due.push(&e.byFlow)
}

func (o *order[K]) leaveEarly(e *entry[K]) {
	e.byFlow.remove()
	e.byClass.remove()
	o.earlies--
	e.flow.earlies--
	if e.flow.earlies == 0 {
		e.flow.inEarly.remove()
	}
}

// hasten takes in that an entry which could run already was asked for again. It moves forward when the new request
// is due before the old one; it never moves back, and among the due ones it keeps its place.
func (o *order[K]) hasten(e *entry[K], class Class, at int64) {
	if class < e.class {
		o.ready[e.class]--
		o.ready[class]++
		e.class = class
	}
	if e.state == early && at+o.slack[class] < e.deadline {
		o.leaveEarly(e)
		o.settle(e, class, at)
	}
}

// nextDue returns the early entry that becomes due first, or nil.
func (o *order[K]) nextDue() *entry[K] {
	if o.earlies == 0 {
		return nil
	}
	return o.first(&o.byClass)
}

// first returns the entry with the earliest deadline. Of equal deadlines the one with the greater slack is that of the
// earlier arrival.
func (o *order[K]) first(lists *[Classes]list[entry[K]]) *entry[K] {
	var best *entry[K]
	var slack int64
	for class := range lists {
		e := lists[class].front()
		if e == nil {
			continue
		}
		if best == nil || e.deadline < best.deadline || e.deadline == best.deadline && o.slack[class] > slack {
			best, slack = e, o.slack[class]
		}
	}
	return best
}

// expire makes due the early entry that nextDue returned.
func (o *order[K]) expire(e *entry[K]) {
	o.leaveEarly(e)
	o.makeDue(e)
}

// next takes out the entry whose turn it is, or returns nil when there is none.
func (o *order[K]) next() *entry[K] {
	if f := o.due.front(); f != nil {
		e := f.due.front()
		e.byFlow.remove()
		f.inDue.remove()
		if !f.due.empty() {
			o.due.push(&f.inDue)
		}
		o.take(e)
		return e
	}
	f := o.early.front()
	if f == nil {
		return nil
	}
	e := o.first(&f.early)
	o.leaveEarly(e)
	if f.earlies > 0 {
		f.inEarly.remove()
		o.early.push(&f.inEarly)
	}
	o.take(e)
	return e
}

func (o *order[K]) take(e *entry[K]) {
	o.ready[e.class]--
	e.state = resting
}

// len returns the number of entries that could run now.
func (o *order[K]) len() int {
	n := 0
	for _, count := range o.ready {
		n += count
	}
	return n
}
