package queue

import "hash/maphash"

// A table finds entries by key. It does what a Go map does, and is here because finding, adding and removing are half of
// the queue's cost: it hashes a key once for all three, touches as little memory as can be, because with a million
// keys each touch is a cache miss, and gives memory back after a flood.
//
// It uses open addressing with linear probing: an entry sits in the first free slot from the one that its hash points to.
type table[K comparable] struct {
	seed    maphash.Seed
	slots   []uint64    // hash<<32 | id+1, or 0 when free; a power of two, at most three quarters used
	entries []*entry[K] // by id; nil when the id is free
	free    []uint32    // ids
	touched uint64      // makes touch do something
}

const minSlots = 64

func newTable[K comparable]() table[K] {
	return table[K]{seed: maphash.MakeSeed(), slots: make([]uint64, minSlots)}
}

// len returns the number of entries.
func (t *table[K]) len() int { return len(t.entries) - len(t.free) }

// find returns the entry of the key, or nil, and the key's hash.
func (t *table[K]) find(key K) (*entry[K], uint32) {
	hash := uint32(maphash.Comparable(t.seed, key))
	mask := len(t.slots) - 1
	for i := int(hash) & mask; ; i = (i + 1) & mask {
		slot := t.slots[i]
		if slot == 0 {
			return nil, hash
		}
		if uint32(slot>>32) == hash {
			if e := t.entries[uint32(slot)-1]; e.key == key {
				return e, hash
			}
		}
	}
}

// insert adds an entry whose key has the hash and was not found.
func (t *table[K]) insert(e *entry[K], hash uint32) {
	if t.len() >= len(t.slots)/4*3 {
		t.resize(2 * len(t.slots))
	}
	e.hash = hash
	if n := len(t.free); n > 0 {
		e.id, t.free = t.free[n-1], t.free[:n-1]
		t.entries[e.id] = e
	} else {
		e.id = uint32(len(t.entries))
		t.entries = append(t.entries, e)
	}
	t.put(e)
}

func (t *table[K]) put(e *entry[K]) {
	mask := len(t.slots) - 1
	i := int(e.hash) & mask
	for t.slots[i] != 0 {
		i = (i + 1) & mask
	}
	t.slots[i] = uint64(e.hash)<<32 | uint64(e.id+1)
}

// touch loads the slots of the entries, so that the cache misses overlap; remove after remove would wait for each.
func (t *table[K]) touch(entries []*entry[K]) {
	mask := len(t.slots) - 1
	for _, e := range entries {
		t.touched += t.slots[int(e.hash)&mask]
	}
}

// remove takes out an entry that is in the table.
func (t *table[K]) remove(e *entry[K]) {
	mask := len(t.slots) - 1
	hole := int(e.hash) & mask
	for uint32(t.slots[hole]) != e.id+1 {
		hole = (hole + 1) & mask
	}
	// Slots behind the hole move into it unless they would get in front of where their hash points to.
	for i := (hole + 1) & mask; t.slots[i] != 0; i = (i + 1) & mask {
		if home := int(t.slots[i]>>32) & mask; (i-home)&mask >= (i-hole)&mask {
			t.slots[hole] = t.slots[i]
			hole = i
		}
	}
	t.slots[hole] = 0
	t.entries[e.id] = nil
	t.free = append(t.free, e.id)
	if t.len() < len(t.slots)/8 && len(t.slots) > minSlots {
		t.resize(len(t.slots) / 2)
	}
}

// resize gives the table so many slots, and the entries new ids without gaps.
func (t *table[K]) resize(slots int) {
	old := t.entries
	t.slots, t.entries, t.free = make([]uint64, slots), make([]*entry[K], 0, slots/4*3), nil
	for _, e := range old {
		if e != nil {
			e.id = uint32(len(t.entries))
			t.entries = append(t.entries, e)
			t.put(e)
		}
	}
}
