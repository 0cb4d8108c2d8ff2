package cache

import (
	"fmt"
	"runtime"
	"testing"
)

// The decoded forms of custom resources are bounded: those read last stay, all can be read at any time.
func TestDecodedFormsAreBounded(t *testing.T) {
	var d decoded
	objects := []*object{}
	for i := range 10 {
		o := &object{key: fmt.Sprint(i), size: decodedLimit / 5 * 2 / 4} // room for four
		objects = append(objects, o)
		d.remember(o, func(m *models) { m.unstructured = map[string]any{} })
		objects[0].load() // in use all the time
	}
	kept := []string{}
	for _, o := range objects {
		if o.immutable.Load() != nil {
			kept = append(kept, o.key)
		}
	}
	same(t, "kept", []string{"0", "7", "8", "9"}, kept)
	if d.bytes > decodedLimit || len(d.queue) != 4 {
		t.Errorf("%d bytes of %d forms are accounted for", d.bytes, len(d.queue))
	}
}

// What is kept of objects that were replaced does not add up, long before the limit is met.
func TestDecodedFormsOfReplacedObjectsGo(t *testing.T) {
	var d decoded
	var last *object
	for i := range 100 * minSweep {
		last = &object{key: fmt.Sprint(i), size: 1}
		d.remember(last, func(m *models) { m.unstructured = map[string]any{} })
		if i%minSweep == 0 {
			runtime.GC() // replaces the ones before
		}
	}
	if len(d.queue) > 4*minSweep || d.bytes > 4*minSweep*5/2 {
		t.Errorf("%d forms of %d bytes are accounted for, one is in use", len(d.queue), d.bytes)
	}
	if last.load() == nil {
		t.Error("the form in use is gone")
	}
}
