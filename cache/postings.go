package cache

import (
	"iter"
	"slices"
	"sort"
	"strings"
)

// postings is a sorted set of slots. It is cut into chunks so that adding and removing move little memory
// however many there are.
type postings struct {
	chunks [][]uint32 // none is empty
	count  int
}

const maxChunk = 1024

// find returns the chunk where slot is or belongs, and its place there.
func (p *postings) find(slot uint32) (chunk, place int, found bool) {
	chunk = max(0, sort.Search(len(p.chunks), func(i int) bool { return p.chunks[i][0] > slot })-1)
	if len(p.chunks) == 0 {
		return 0, 0, false
	}
	place, found = slices.BinarySearch(p.chunks[chunk], slot)
	return chunk, place, found
}

func (p *postings) add(slot uint32) {
	chunk, place, found := p.find(slot)
	if found {
		return
	}
	p.count++
	if len(p.chunks) == 0 {
		p.chunks = [][]uint32{{slot}}
		return
	}
	c := slices.Insert(p.chunks[chunk], place, slot)
	p.chunks[chunk] = c
	if len(c) <= maxChunk {
		return
	}
	// An append at the end is how a listing fills the set: leave what is full as it is.
	half := maxChunk / 2
	if place == maxChunk {
		half = maxChunk
	}
	p.chunks[chunk] = c[:half:half]
	p.chunks = slices.Insert(p.chunks, chunk+1, slices.Clone(c[half:]))
}

func (p *postings) remove(slot uint32) {
	chunk, place, found := p.find(slot)
	if !found {
		return
	}
	p.count--
	p.chunks[chunk] = slices.Delete(p.chunks[chunk], place, place+1)
	if len(p.chunks[chunk]) == 0 {
		p.chunks = slices.Delete(p.chunks, chunk, chunk+1)
	}
}

func (p *postings) all() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for _, c := range p.chunks {
			for _, slot := range c {
				if !yield(slot) {
					return
				}
			}
		}
	}
}

// valueIndex maps the values of one label or field to the slots of the objects that have them.
type valueIndex map[string]*postings

// add copies the value, which would otherwise pin the object that it is part of.
func (x valueIndex) add(value string, slot uint32) {
	p := x[value]
	if p == nil {
		p = &postings{}
		x[strings.Clone(value)] = p
	}
	p.add(slot)
}

func (x valueIndex) remove(value string, slot uint32) {
	p := x[value]
	if p == nil {
		return
	}
	if p.remove(slot); p.count == 0 {
		delete(x, value)
	}
}

// labelIndex maps label keys to the values' indexes.
type labelIndex map[string]valueIndex

func (x labelIndex) add(key, value string, slot uint32) {
	values := x[key]
	if values == nil {
		values = valueIndex{}
		x[strings.Clone(key)] = values
	}
	values.add(value, slot)
}

func (x labelIndex) remove(key, value string, slot uint32) {
	values := x[key]
	if values.remove(value, slot); len(values) == 0 {
		delete(x, key)
	}
}
