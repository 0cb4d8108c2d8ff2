package mvcc

import "fmt"

// check returns the first broken invariant of the table's current state.
func (t *Table[V]) check() error {
	s := t.current.Load()
	if s.root == nil {
		return s.history.check(s.revision)
	}
	depth := -1
	var walk func(n *node[V], level int, low, high string) error
	walk = func(n *node[V], level int, low, high string) error {
		lowest := 1
		if n.links != nil {
			lowest = 2
		}
		if w := n.width(); w < lowest || w > maxLen {
			return fmt.Errorf("level %d: node of width %d, allowed are %d to %d", level, w, lowest, maxLen)
		}
		if n.items != nil && n.links != nil {
			return fmt.Errorf("level %d: node is a leaf and a branch", level)
		}
		if n.links == nil {
			if depth >= 0 && depth != level {
				return fmt.Errorf("leaves at levels %d and %d", depth, level)
			}
			depth = level
			last := low
			for i, e := range n.items {
				if i > 0 && e.Key <= last || e.Key < low || high != "" && e.Key >= high {
					return fmt.Errorf("leaf %q…%q: key %q after %q", low, high, e.Key, last)
				}
				if e.Revision == 0 || e.Revision > s.revision {
					return fmt.Errorf("key %q has revision %d in a table at %d", e.Key, e.Revision, s.revision)
				}
				last = e.Key
			}
			if n.size != len(n.items) {
				return fmt.Errorf("leaf %q has size %d for %d items", low, n.size, len(n.items))
			}
			return nil
		}
		size := 0
		for i, l := range n.links {
			end := high
			if i+1 < len(n.links) {
				end = n.links[i+1].low
			}
			if l.low < low || end != "" && l.low >= end {
				return fmt.Errorf("level %d: link %q outside of %q…%q", level, l.low, low, end)
			}
			if err := walk(l.node, level+1, l.low, end); err != nil {
				return err
			}
			size += l.node.size
		}
		if size != n.size {
			return fmt.Errorf("level %d: branch has size %d for %d entries", level, n.size, size)
		}
		return nil
	}
	if err := walk(s.root, 0, "", ""); err != nil {
		return err
	}
	return s.history.check(s.revision)
}

func (h history[V]) check(newest uint64) error {
	if h.compacted > newest {
		return fmt.Errorf("compacted %d is newer than the newest revision %d", h.compacted, newest)
	}
	last := uint64(0)
	for i := range h.len() {
		c := h.at(i)
		if c.Revision < last || c.Revision > newest || c.OldRevision > c.Revision {
			return fmt.Errorf("change %d of %q: revision %d (old %d) after %d in a table at %d",
				i, c.Key, c.Revision, c.OldRevision, last, newest)
		}
		last = c.Revision
	}
	if n := h.len(); n > 0 && h.compacted < newest && last != newest {
		return fmt.Errorf("last change is of revision %d, the newest is %d", last, newest)
	}
	return nil
}
