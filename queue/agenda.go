package queue

// An agenda is a heap of the entries that have something planned, by time, and among equals by the order in which
// that was asked for.
type agenda[K comparable] struct {
	heap []appointment[K]
	asks uint64
}

type appointment[K comparable] struct {
	at    int64
	ask   uint64
	entry *entry[K]
}

// next returns the time of the first appointment, or never.
func (a *agenda[K]) next() int64 {
	if len(a.heap) == 0 {
		return never
	}
	return a.heap[0].at
}

// set gives the entry an appointment at the given time in place of the one it had; never takes it off the agenda.
func (a *agenda[K]) set(e *entry[K], at int64) {
	i, last := e.delay.index, len(a.heap)-1
	switch {
	case i < 0 && at == never:
	case i < 0:
		a.asks++
		e.delay.index = len(a.heap)
		a.heap = append(a.heap, appointment[K]{at, a.asks, e})
		a.up(last + 1)
	case at == never:
		a.swap(i, last)
		a.heap[last] = appointment[K]{}
		a.heap = a.heap[:last]
		e.delay.index = -1
		if i < last {
			a.up(a.down(i))
		}
	case at != a.heap[i].at:
		a.asks++
		a.heap[i].at, a.heap[i].ask = at, a.asks
		a.up(a.down(i))
	}
}

func (a *agenda[K]) less(i, j int) bool {
	x, y := &a.heap[i], &a.heap[j]
	return x.at < y.at || x.at == y.at && x.ask < y.ask
}

func (a *agenda[K]) swap(i, j int) {
	a.heap[i], a.heap[j] = a.heap[j], a.heap[i]
	a.heap[i].entry.delay.index = i
	a.heap[j].entry.delay.index = j
}

func (a *agenda[K]) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !a.less(i, parent) {
			return
		}
		a.swap(i, parent)
		i = parent
	}
}

// down returns where the appointment ended up.
func (a *agenda[K]) down(i int) int {
	for {
		child := 2*i + 1
		if child >= len(a.heap) {
			return i
		}
		if right := child + 1; right < len(a.heap) && a.less(right, child) {
			child = right
		}
		if !a.less(child, i) {
			return i
		}
		a.swap(i, child)
		i = child
	}
}
