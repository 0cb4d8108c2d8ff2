package protodecode

import (
	"errors"
	"fmt"
	"reflect"
	"unsafe"
)

// Message is what generated code gives the types that can be decoded.
type Message interface{ Unmarshal([]byte) error }

// Decoder decodes messages into values of one struct type. It is immutable and may be used concurrently.
type Decoder struct {
	layout *layout
	typ    reflect.Type
}

// New makes a decoder for a struct type whose pointer is a Message.
func New(t reflect.Type) (*Decoder, error) {
	if t.Kind() != reflect.Struct || !isMessage(t) {
		return nil, fmt.Errorf("%v has no protobuf message", t)
	}
	return &Decoder{typ: t, layout: planner{}.layoutOf(t)}, nil
}

// errUnexpected says that a message is not encoded as the layout expects: the generated code decides what it
// means.
var errUnexpected = errors.New("unexpected encoding")

// Decode sets *into, which must be a pointer to the decoder's type, to what the message says.
func (d *Decoder) Decode(message string, into Message) error {
	value := reflect.ValueOf(into)
	if value.Type().Elem() != d.typ {
		return fmt.Errorf("decode a %v into a %v", d.typ, value.Type().Elem())
	}
	value.Elem().SetZero()
	if d.layout != nil && d.layout.decode(message, value.UnsafePointer()) == nil {
		return nil
	}
	value.Elem().SetZero()
	return into.Unmarshal(bytesOf(message))
}

// bytesOf views s as bytes. Unmarshal methods copy what they take.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

const (
	wireVarint = 0
	wireBytes  = 2
)

// decode reads a message into the struct at base.
func (l *layout) decode(message string, base unsafe.Pointer) error {
	for i := 0; i < len(message); {
		tag, body := uvarint(message, i)
		if body < 0 {
			return errUnexpected
		}
		number := tag >> 3
		if number >= uint64(len(l.fields)) || l.fields[number].kind == absent {
			if i = skip(message, body, tag); i < 0 { // a field that is newer than the type
				return errUnexpected
			}
			continue
		}
		f := &l.fields[number]
		if byte(tag&7) != f.wire {
			return errUnexpected
		}
		var err error
		if i, err = f.decode(message, i, body, tag, unsafe.Add(base, f.offset)); err != nil {
			return err
		}
	}
	return nil
}

// decode reads the field whose tag is at message[start] and whose body follows at message[body], with all
// fields of the same tag behind it, and returns the position behind them.
func (f *field) decode(message string, start, body int, tag uint64, p unsafe.Pointer) (int, error) {
	switch f.shape {
	case single:
		return f.value(message, body, p)
	case pointer:
		if *(*unsafe.Pointer)(p) != nil {
			return 0, errUnexpected // a second value, to be merged with the first
		}
		target := f.allocate()
		*(*unsafe.Pointer)(p) = target
		return f.value(message, body, target)
	case slice:
		return f.elements(message, start, tag, p)
	default:
		return f.pairs(message, start, tag, p)
	}
}

// allocate makes the target of a pointer.
func (f *field) allocate() unsafe.Pointer {
	switch f.kind {
	case text:
		return unsafe.Pointer(new(string))
	case boolean:
		return unsafe.Pointer(new(bool))
	case int32s:
		return unsafe.Pointer(new(int32))
	case int64s:
		return unsafe.Pointer(new(int64))
	}
	return reflect.New(f.typ).UnsafePointer()
}

// value reads one value into p.
func (f *field) value(message string, i int, p unsafe.Pointer) (int, error) {
	v, i := uvarint(message, i)
	if i < 0 {
		return 0, errUnexpected
	}
	switch f.kind {
	case boolean:
		*(*bool)(p) = v != 0
		return i, nil
	case int32s:
		*(*int32)(p) = int32(v)
		return i, nil
	case int64s:
		*(*int64)(p) = int64(v)
		return i, nil
	}
	if v > uint64(len(message)-i) {
		return 0, errUnexpected
	}
	end := i + int(v)
	content := message[i:end]
	switch f.kind {
	case text:
		*(*string)(p) = content
	case octets:
		*(*[]byte)(p) = append([]byte{}, content...)
	case embedded:
		return end, f.layout.decode(content, p)
	default:
		target := reflect.NewAt(f.typ, p)
		emptyIfNil(target.Elem())
		return end, target.Interface().(Message).Unmarshal(bytesOf(content))
	}
	return end, nil
}

// emptyIfNil makes a slice empty that is there although it has no elements, as the generated code does.
func emptyIfNil(v reflect.Value) {
	if v.Kind() == reflect.Slice && v.IsNil() {
		v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	}
}

// elements reads a run of fields into a slice that has just the room they need.
func (f *field) elements(message string, start int, tag uint64, p unsafe.Pointer) (int, error) {
	if *(*unsafe.Pointer)(p) != nil {
		return 0, errUnexpected // a second run
	}
	n, err := f.count(message, start, tag)
	if err != nil {
		return 0, err
	}
	var first unsafe.Pointer
	if f.kind == text && f.typ == stringType {
		texts := make([]string, n)
		*(*[]string)(p) = texts
		first = unsafe.Pointer(unsafe.SliceData(texts))
	} else {
		elements := reflect.NewAt(f.container, p).Elem()
		elements.Grow(n)
		elements.SetLen(n)
		first = elements.UnsafePointer()
	}
	i, size := start, f.typ.Size()
	for element := range uintptr(n) {
		_, body := uvarint(message, i)
		if i, err = f.value(message, body, unsafe.Add(first, element*size)); err != nil {
			return 0, err
		}
	}
	return i, nil
}

// count returns the length of the run of fields with this tag.
func (f *field) count(message string, i int, tag uint64) (n int, err error) {
	for i < len(message) {
		next, body := uvarint(message, i)
		if next != tag {
			break
		}
		v, end := uvarint(message, body)
		if body < 0 || end < 0 {
			return 0, errUnexpected
		}
		if f.wire == wireBytes {
			if v > uint64(len(message)-end) {
				return 0, errUnexpected
			}
			end += int(v)
		}
		i = end
		n++
	}
	return n, nil
}

// pairs reads a run of fields into a map.
func (f *field) pairs(message string, start int, tag uint64, p unsafe.Pointer) (int, error) {
	if *(*unsafe.Pointer)(p) != nil {
		return 0, errUnexpected
	}
	n, err := f.count(message, start, tag)
	if err != nil {
		return 0, err
	}
	if f.container == textsType {
		texts := make(map[string]string, n)
		*(*map[string]string)(p) = texts
		var pair struct{ key, value string }
		return f.eachPair(message, start, n, unsafe.Pointer(&pair), func() {
			texts[pair.key] = pair.value
			pair.key, pair.value = "", ""
		})
	}
	entries := reflect.MakeMapWithSize(f.container, n)
	reflect.NewAt(f.container, p).Elem().Set(entries)
	pair := reflect.New(f.typ)
	return f.eachPair(message, start, n, pair.UnsafePointer(), func() {
		emptyIfNil(pair.Elem().Field(1))
		entries.SetMapIndex(pair.Elem().Field(0), pair.Elem().Field(1))
		pair.Elem().SetZero()
	})
}

// eachPair decodes n pairs into the one at pair, and calls take after each.
func (f *field) eachPair(message string, i, n int, pair unsafe.Pointer, take func()) (int, error) {
	for range n {
		_, body := uvarint(message, i)
		size, from := uvarint(message, body) // count has read them all before
		i = from + int(size)
		if err := f.layout.decode(message[from:i], pair); err != nil {
			return 0, err
		}
		take()
	}
	return i, nil
}

// skip returns the position behind a field's body, negative when it has no end.
func skip(message string, body int, tag uint64) int {
	size := uint64(0)
	switch tag & 7 {
	case wireVarint:
		_, end := uvarint(message, body)
		return end
	case 1:
		size = 8
	case wireBytes:
		if size, body = uvarint(message, body); body < 0 {
			return -1
		}
	case 5:
		size = 4
	default:
		return -1
	}
	if tag>>3 == 0 || size > uint64(len(message)-body) {
		return -1
	}
	return body + int(size)
}

// uvarint reads a varint at s[i] and returns it with the position behind it, which is negative when there is
// none.
func uvarint(s string, i int) (uint64, int) {
	if i >= 0 && i < len(s) && s[i] < 0x80 {
		return uint64(s[i]), i + 1
	}
	return longUvarint(s, i)
}

func longUvarint(s string, i int) (uint64, int) {
	var v uint64
	for shift := uint(0); i >= 0 && shift < 64 && i < len(s); shift += 7 {
		b := s[i]
		i++
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return v, i
		}
	}
	return 0, -1
}
