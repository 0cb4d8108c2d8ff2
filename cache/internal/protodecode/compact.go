package protodecode

import "encoding/binary"

// Compact appends to b the message without what says nothing: the generated code writes every field that is not
// behind a pointer, also when it has its zero value. The result decodes to the same object. Fields that the
// type does not know are kept as they are, and so is a whole message that has anything unexpected in it.
func (d *Decoder) Compact(b []byte, message string) []byte {
	from := len(b)
	if d.layout == nil {
		return append(b, message...)
	}
	if compacted, ok := d.layout.compact(b, message); ok {
		return compacted
	}
	return append(b[:from], message...)
}

// compact appends what is left of a message. It reports false when the message is not written as the generated
// code writes it, in ascending order: of a field that is there twice the last one counts, even a zero one.
func (l *layout) compact(b []byte, message string) ([]byte, bool) {
	last := uint64(0)
	for i := 0; i < len(message); {
		tag, body := uvarint(message, i)
		if body < 0 {
			return b, false
		}
		end := skip(message, body, tag)
		if end < 0 {
			return b, false
		}
		number := tag >> 3
		f := field{}
		if number < uint64(len(l.fields)) {
			f = l.fields[number]
		}
		repeated := f.kind == absent || f.shape == slice || f.shape == mapping
		if number < last || number == last && !repeated || f.kind != absent && byte(tag&7) != f.wire {
			return b, false
		}
		last = number
		var ok bool
		if b, ok = f.compact(b, message, i, body, end); !ok {
			return b, false
		}
		i = end
	}
	return b, true
}

// compact appends what is left of one field, message[start:end].
func (f *field) compact(b []byte, message string, start, body, end int) ([]byte, bool) {
	if f.kind == absent || f.shape == mapping {
		return append(b, message[start:end]...), true
	}
	value, content := uvarint(message, body)
	zero := false
	switch f.kind {
	case text, boolean, int32s, int64s:
		zero = value == 0
	case embedded:
		from := len(b)
		b = append(b, message[start:content]...) // with the length as it was: what is left is rarely so much less
		head := len(b)
		var ok bool
		if b, ok = f.layout.compact(b, message[content:end]); !ok {
			return b, false
		}
		if len(b) == head && f.shape == single {
			return b[:from], true
		}
		return putLength(b, head, content-body), true
	}
	if zero && f.shape == single {
		return b, true
	}
	return append(b, message[start:end]...), true
}

// putLength puts the length of b[at:] before it, in the place of the larger one that takes the size bytes there.
func putLength(b []byte, at, size int) []byte {
	var length [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(length[:], uint64(len(b)-at))
	copy(b[at-size:], length[:n])
	if n == size {
		return b
	}
	return append(b[:at-size+n], b[at:]...)
}
