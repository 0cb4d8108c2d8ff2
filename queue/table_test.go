package queue

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestTableAgreesWithMap fills and empties a table again and again, so that it grows and shrinks and its slots collide.
func TestTableAgreesWithMap(t *testing.T) {
	const seed, keys, steps = 11, 600, 24 * 4 * 600
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	table, want := newTable[string](), map[string]*entry[string]{}
	largest := 0
	for step := range steps {
		key := fmt.Sprint(random.IntN(keys))
		e, hash := table.find(key)
		if e != want[key] {
			t.Fatalf("step %d: found %v for %s, want %v", step, e, key, want[key])
		}
		filling := step/(4*keys)%2 == 0 // ends with emptying
		switch {
		case e == nil && filling:
			e = &entry[string]{key: key}
			table.insert(e, hash)
			want[key] = e
		case e != nil && !filling:
			table.remove(e)
			delete(want, key)
		}
		if table.len() != len(want) {
			t.Fatalf("step %d: length %d, want %d", step, table.len(), len(want))
		}
		largest = max(largest, len(table.slots))
	}
	if largest <= minSlots || len(table.slots) >= largest {
		t.Errorf("the table has %d slots, had at most %d: it did not grow and shrink", len(table.slots), largest)
	}
}
