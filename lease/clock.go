package lease

import "time"

// moment is a point in time on both clocks of this machine. The monotonic one
// stands still while the machine sleeps; the wall clock can be set.
type moment struct{ mono, wall time.Time }

func (e *Elector) now() moment {
	return moment{mono: time.Now(), wall: e.opts.Wall().Round(0)}
}

func (m moment) add(d time.Duration) moment {
	return moment{mono: m.mono.Add(d), wall: m.wall.Add(d)}
}

// before reports whether m is before t by both clocks.
func (m moment) before(t moment) bool { return m.mono.Before(t.mono) && m.wall.Before(t.wall) }
