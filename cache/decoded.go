package cache

import (
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

// load returns the decoded forms of the object, or nil.
func (o *object) load() *models {
	m := o.immutable.Load()
	if m != nil && !m.read.Load() {
		m.read.Store(true)
	}
	return m
}
