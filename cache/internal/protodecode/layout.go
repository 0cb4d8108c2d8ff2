package protodecode

import (
	"reflect"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// layout says where the fields of a message lie in its Go struct.
type layout struct {
	fields []field // by number
}

// field is one field of a message.
type field struct {
	kind      kind
	shape     shape
	wire      byte
	offset    uintptr
	typ       reflect.Type // of the value: what a pointer points to, a slice's element, a map's pair
	container reflect.Type // the slice or map
	layout    *layout      // of an embedded message, or of a map's pair
}

type kind uint8

const (
	absent   kind = iota
	text          // string
	octets        // []byte
	boolean       // bool
	int32s        // int32
	int64s        // int64
	embedded      // a struct with a layout
	opaque        // a Message that decodes itself
)

type shape uint8

const (
	single shape = iota
	pointer
	slice
	mapping
)

var (
	messageType  = reflect.TypeFor[Message]()
	typeMetaType = reflect.TypeFor[metav1.TypeMeta]()
	stringType   = reflect.TypeFor[string]()
	textsType    = reflect.TypeFor[map[string]string]()
)

// maxNumber bounds the table of a layout; the API's numbers stay below 100.
const maxNumber = 1000

func isMessage(t reflect.Type) bool { return reflect.PointerTo(t).Implements(messageType) }

// planner makes the layouts of a type and of all it contains. A type that cannot be laid out has nil.
type planner map[reflect.Type]*layout

func (p planner) layoutOf(t reflect.Type) *layout {
	if l, known := p[t]; known {
		return l
	}
	l := &layout{}
	p[t] = l // types may contain themselves
	for i := range t.NumField() {
		sf := t.Field(i)
		tag, tagged := sf.Tag.Lookup("protobuf")
		if !tagged && sf.Type == typeMetaType {
			continue // it does not travel inside the message
		}
		f, number, ok := p.fieldOf(sf.Type, tag)
		if !tagged || !ok || !sf.IsExported() {
			p[t] = nil
			return nil
		}
		f.offset = sf.Offset
		l.set(number, f)
	}
	return l
}

func (l *layout) set(number int, f field) {
	for len(l.fields) <= number {
		l.fields = append(l.fields, field{})
	}
	l.fields[number] = f
}

// fieldOf plans a field with a tag like "bytes,11,rep,name=labels". Of the tag only the number is to be
// trusted: like the generator of the API's code, everything else follows from the Go type.
func (p planner) fieldOf(t reflect.Type, tag string) (f field, number int, ok bool) {
	_, rest, _ := strings.Cut(tag, ",")
	rest, _, _ = strings.Cut(rest, ",")
	number, err := strconv.Atoi(rest)
	if err != nil || number < 1 || number > maxNumber {
		return field{}, 0, false
	}
	switch {
	case t.Kind() == reflect.Map:
		f, ok = p.mapOf(t)
	case t.Kind() == reflect.Pointer:
		f, ok = p.valueOf(t.Elem())
		f.shape = pointer
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8 && !isMessage(t):
		f, ok = p.valueOf(t.Elem())
		f.shape, f.container = slice, t
	default:
		f, ok = p.valueOf(t)
	}
	return f, number, ok
}

// valueOf plans a value that is no container.
func (p planner) valueOf(t reflect.Type) (f field, ok bool) {
	f = field{typ: t, wire: wireVarint}
	switch t.Kind() {
	case reflect.Bool:
		f.kind = boolean
		return f, true
	case reflect.Int32:
		f.kind = int32s
		return f, true
	case reflect.Int64:
		f.kind = int64s
		return f, true
	}
	f.wire = wireBytes
	switch {
	case t.Kind() == reflect.String:
		f.kind = text
		return f, true
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 && !isMessage(t):
		f.kind = octets
		return f, true
	case !isMessage(t):
		return field{}, false
	}
	f.kind = opaque
	if t.Kind() != reflect.Struct {
		return f, true
	}
	if f.layout = p.layoutOf(t); f.layout != nil {
		f.kind = embedded
	}
	return f, true
}

// mapOf plans a map by the pair its entries travel as: key and value are fields 1 and 2.
func (p planner) mapOf(t reflect.Type) (f field, ok bool) {
	key, keyOK := p.valueOf(t.Key())
	value, valueOK := p.valueOf(t.Elem())
	if !keyOK || !valueOK {
		return field{}, false
	}
	pair := reflect.StructOf([]reflect.StructField{{Name: "Key", Type: t.Key()}, {Name: "Value", Type: t.Elem()}})
	value.offset = pair.Field(1).Offset
	l := &layout{}
	l.set(1, key)
	l.set(2, value)
	return field{kind: embedded, shape: mapping, wire: wireBytes, typ: pair, container: t, layout: l}, true
}
