package cache

import (
	"slices"
	"sync"
	"sync/atomic"
	"weak"

	"k8s.io/apimachinery/pkg/runtime"
)

// decodedLimit is about how many bytes of decoded objects a kind that travels as JSON keeps besides the encoded
// ones.
const decodedLimit = 128 << 20

// models are the decoded forms of a JSON object that reads copy from instead of decoding again.
type models struct {
	typed        runtime.Object
	unstructured map[string]any
	read         atomic.Bool // since it was last looked at whether they should go
}

// decoded bounds the decoded forms of a kind. Those that were not read for longest go first.
type decoded struct {
	mu    sync.Mutex
	queue []decodedForm // in the order of their decoding, those read again put back to the end
	bytes int64
	sweep int // the length of queue at which those of objects that are gone leave it
}

// decodedForm is one object that has a decoded form. It does not keep the object, which may be replaced.
type decodedForm struct {
	object weak.Pointer[object]
	bytes  int64
}

// remember adds a decoded form to the object's. Of two readers that do so at once one may lose its work,
// nothing more.
func (d *decoded) remember(o *object, set func(*models)) *models {
	now := &models{}
	was := o.immutable.Load()
	if was != nil {
		now.typed, now.unstructured = was.typed, was.unstructured
	}
	set(now)
	if o.immutable.CompareAndSwap(was, now) {
		d.add(o)
	}
	return now
}

// add takes a form into account, and lets others go until the limit is kept.
func (d *decoded) add(o *object) {
	d.mu.Lock()
	defer d.mu.Unlock()
	// A decoded form takes about two and a half times the bytes of its JSON.
	form := decodedForm{object: weak.Make(o), bytes: int64(o.size) * 5 / 2}
	d.queue = append(d.queue, form)
	d.bytes += form.bytes
	if len(d.queue) >= d.sweep {
		d.dropGone()
	}
	for d.bytes > decodedLimit {
		first := d.queue[0]
		d.queue = d.queue[1:]
		o := first.object.Value()
		if o == nil {
			d.bytes -= first.bytes
			continue
		}
		if m := o.immutable.Load(); m != nil && m.read.Swap(false) {
			d.queue = append(d.queue, first)
			continue
		}
		o.immutable.Store(nil)
		d.bytes -= first.bytes
	}
}

// minSweep keeps short queues from being swept all the time.
const minSweep = 64

// dropGone drops what is kept of objects that were replaced or deleted. A queue is swept again when it is twice as
// long as what was left, so that a form costs a constant time.
func (d *decoded) dropGone() {
	d.queue = slices.DeleteFunc(d.queue, func(form decodedForm) bool {
		gone := form.object.Value() == nil
		if gone {
			d.bytes -= form.bytes
		}
		return gone
	})
	d.sweep = max(2*len(d.queue), minSweep)
}

// load returns the decoded forms of the object, or nil.
func (o *object) load() *models {
	m := o.immutable.Load()
	if m != nil && !m.read.Load() {
		m.read.Store(true)
	}
	return m
}
