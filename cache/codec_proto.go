package cache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Field numbers of the messages that are walked here. The API's compatibility rules keep them as they are for
// ever.
const (
	protoObjectMetadata = 1 // of every kind with ObjectMeta
	protoListMetadata   = 1 // of every list kind
	protoListItems      = 2

	protoMetaName          = 1
	protoMetaNamespace     = 3
	protoMetaUID           = 5
	protoMetaVersion       = 6
	protoMetaManagedFields = 17

	protoManagedManager = 1
)

// protoMagic precedes a runtime.Unknown, the envelope of every object that travels as protobuf.
const protoMagic = "k8s\x00"

var errProto = errors.New("malformed protobuf")

// protoField is one field of a message: message[start:end] with its tag, message[body:end] without.
type protoField struct {
	number           int
	bytes            bool // length-delimited: body is the content after the length
	start, body, end int
}

// protoNext reads the field that starts at message[i].
func protoNext(message string, i int) (protoField, error) {
	tag, at := uvarint(message, i)
	if at < 0 || tag>>3 == 0 || tag>>3 > 1<<29 {
		return protoField{}, errProto
	}
	f := protoField{number: int(tag >> 3), start: i, body: at}
	size := uint64(0)
	switch tag & 7 {
	case 0:
		if _, f.end = uvarint(message, at); f.end < 0 {
			return protoField{}, errProto
		}
		return f, nil
	case 1:
		size = 8
	case 2:
		f.bytes = true
		if size, f.body = uvarint(message, at); f.body < 0 {
			return protoField{}, errProto
		}
	case 5:
		size = 4
	default: // groups, which no Kubernetes message has
		return protoField{}, errProto
	}
	if size > uint64(len(message)-f.body) {
		return protoField{}, fmt.Errorf("%w: %w", errProto, errTruncated)
	}
	f.end = f.body + int(size)
	return f, nil
}

// uvarint reads a varint at s[i] and returns it with the position behind it, which is negative when there is
// none.
func uvarint(s string, i int) (uint64, int) {
	var v uint64
	for shift := uint(0); shift < 64 && i < len(s); shift += 7 {
		b := s[i]
		i++
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return v, i
		}
	}
	return 0, -1
}

// protoWalk calls yield for every field of a message until it returns false.
func protoWalk(message string, yield func(f protoField) bool) error {
	for i := 0; i < len(message); {
		f, err := protoNext(message, i)
		if err != nil {
			return err
		}
		if !yield(f) {
			return nil
		}
		i = f.end
	}
	return nil
}

// protoFind returns the first length-delimited field of that number; its number is 0 when there is none.
func protoFind(message string, number int) (found protoField, err error) {
	err = protoWalk(message, func(f protoField) bool {
		if f.number == number && f.bytes {
			found = f
			return false
		}
		return true
	})
	return found, err
}

// protoUnwrap takes the message out of the envelope.
func protoUnwrap(data string) (string, error) {
	unknown, ok := strings.CutPrefix(data, protoMagic)
	if !ok {
		return "", fmt.Errorf("%w: no Kubernetes envelope", errProto)
	}
	const protoUnknownRaw = 2
	f, err := protoFind(unknown, protoUnknownRaw)
	if err != nil {
		return "", err
	}
	return unknown[f.body:f.end], nil
}

func protoMetadata(object string) (string, error) {
	f, err := protoFind(object, protoObjectMetadata)
	return object[f.body:f.end], err
}

func protoHeader(metadata string) (h header, err error) {
	err = protoWalk(metadata, func(f protoField) bool {
		switch s := metadata[f.body:f.end]; f.number {
		case protoMetaName:
			h.name = s
		case protoMetaNamespace:
			h.namespace = s
		case protoMetaUID:
			h.uid = s
		case protoMetaVersion:
			h.resourceVersion = s
		}
		return true
	})
	return h, err
}

func protoPairs(metadata string, number int, yield func(key, value string) bool) {
	_ = protoWalk(metadata, func(f protoField) bool {
		if f.number != number {
			return f.number < number // fields are written in ascending order
		}
		var key, value string
		pair := metadata[f.body:f.end]
		_ = protoWalk(pair, func(f protoField) bool {
			if f.number == 1 {
				key = pair[f.body:f.end]
			} else {
				value = pair[f.body:f.end]
			}
			return true
		})
		return yield(key, value)
	})
}

// protoStrip copies the object without managedFields. What it puts aside is an ObjectMeta that has nothing but
// managedFields.
func protoStrip(object string, keep retention) (stripped, managed string, err error) {
	meta, err := protoFind(object, protoObjectMetadata)
	if err != nil {
		return "", "", err
	}
	before, after := object[:meta.start], object[meta.end:]
	if keep.metadataOnly {
		before, after = "", ""
	}
	metadata := object[meta.body:meta.end]
	if !keep.managedFields {
		if metadata, managed, err = protoDropManaged(metadata, keep.owners); err != nil {
			return "", "", err
		}
	}
	var tag [binary.MaxVarintLen64 + 1]byte
	head := append(tag[:0], protoObjectMetadata<<3|2)
	head = binary.AppendUvarint(head, uint64(len(metadata)))

	var b strings.Builder
	b.Grow(len(before) + len(head) + len(metadata) + len(after))
	b.WriteString(before)
	b.Write(head)
	b.WriteString(metadata)
	b.WriteString(after)
	return b.String(), managed, nil
}

// protoDropManaged splits metadata into all that is not managedFields and the managedFields of the owners.
func protoDropManaged(metadata string, owners map[string]bool) (rest, managed string, err error) {
	var kept, own []byte
	from := 0 // metadata[from:] is not copied yet
	err = protoWalk(metadata, func(f protoField) bool {
		if f.number != protoMetaManagedFields {
			return true
		}
		kept = append(kept, metadata[from:f.start]...)
		from = f.end
		manager, _ := protoFind(metadata[f.body:f.end], protoManagedManager)
		if owners[metadata[f.body:f.end][manager.body:manager.end]] {
			own = append(own, metadata[f.start:f.end]...)
		}
		return true
	})
	if from == 0 {
		return metadata, "", err
	}
	return string(append(kept, metadata[from:]...)), string(own), err
}

func protoManaged(s string) ([]metav1.ManagedFieldsEntry, error) {
	var m metav1.ObjectMeta
	if err := m.Unmarshal(bytesOf(s)); err != nil {
		return nil, err
	}
	return m.ManagedFields, nil
}

// protoList reads a list message: its metadata and its items.
func protoList(list string) (resourceVersion, next string, items []string, err error) {
	const protoListVersion, protoListContinue = 2, 3
	meta := ""
	if err := protoWalk(list, func(f protoField) bool {
		switch f.number {
		case protoListItems:
			items = append(items, list[f.body:f.end])
		case protoListMetadata:
			meta = list[f.body:f.end]
		}
		return true
	}); err != nil {
		return "", "", nil, err
	}
	err = protoWalk(meta, func(f protoField) bool {
		switch s := meta[f.body:f.end]; f.number {
		case protoListVersion:
			resourceVersion = s
		case protoListContinue:
			next = s
		}
		return true
	})
	return resourceVersion, next, items, err
}

// protoEvent reads one watch event: its type and the object in its envelope.
func protoEvent(frame string) (typ, object string, err error) {
	const protoEventType, protoEventObject, protoExtensionRaw = 1, 2, 1
	extension := ""
	if err := protoWalk(frame, func(f protoField) bool {
		switch f.number {
		case protoEventType:
			typ = frame[f.body:f.end]
		case protoEventObject:
			extension = frame[f.body:f.end]
		}
		return true
	}); err != nil {
		return "", "", err
	}
	raw, err := protoFind(extension, protoExtensionRaw)
	return typ, extension[raw.body:raw.end], err
}
