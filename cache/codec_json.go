package cache

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

var errJSON = errors.New("malformed JSON")

// jsonMember is one member of an object: object[start:end] with its name, object[value:end] without. The name
// is as written, between its quotes.
type jsonMember struct {
	name              string
	start, value, end int
}

// jsonMembers calls yield for every member of an object until it returns false.
func jsonMembers(object string, yield func(m jsonMember) bool) error {
	i := jsonSpace(object, 0)
	if i >= len(object) || object[i] != '{' {
		return fmt.Errorf("%w: no object", errJSON)
	}
	for i = jsonSpace(object, i+1); i < len(object) && object[i] != '}'; {
		m := jsonMember{start: i}
		nameEnd, err := jsonEnd(object, i)
		if err != nil {
			return err
		}
		if object[i] != '"' {
			return fmt.Errorf("%w: no member name", errJSON)
		}
		m.name = object[i+1 : nameEnd-1]
		if i = jsonSpace(object, nameEnd); i >= len(object) || object[i] != ':' {
			return fmt.Errorf("%w: no colon", errJSON)
		}
		m.value = jsonSpace(object, i+1)
		if m.end, err = jsonEnd(object, m.value); err != nil {
			return err
		}
		if !yield(m) {
			return nil
		}
		if i = jsonSpace(object, m.end); i < len(object) && object[i] == ',' {
			i = jsonSpace(object, i+1)
		}
	}
	if i >= len(object) {
		return fmt.Errorf("%w: %w", errJSON, errTruncated)
	}
	return nil
}

// jsonElements calls yield for every element of an array until it returns false. null is an empty array.
func jsonElements(array string, yield func(element string) bool) error {
	i := jsonSpace(array, 0)
	if array[i:] == "null" {
		return nil
	}
	if i >= len(array) || array[i] != '[' {
		return fmt.Errorf("%w: no array", errJSON)
	}
	for i = jsonSpace(array, i+1); i < len(array) && array[i] != ']'; {
		end, err := jsonEnd(array, i)
		if err != nil {
			return err
		}
		if !yield(array[i:end]) {
			return nil
		}
		if i = jsonSpace(array, end); i < len(array) && array[i] == ',' {
			i = jsonSpace(array, i+1)
		}
	}
	if i >= len(array) {
		return fmt.Errorf("%w: %w", errJSON, errTruncated)
	}
	return nil
}

func jsonSpace(s string, i int) int {
	for i < len(s) && (s[i] == ' ' || s[i] == '\n' || s[i] == '\t' || s[i] == '\r') {
		i++
	}
	return i
}

// jsonEnd returns the position behind the value that starts at s[i]. It looks only for where the value ends;
// whether it is well-formed within is left to the decoder.
func jsonEnd(s string, i int) (int, error) {
	depth := 0
	for i < len(s) {
		switch s[i] {
		case '"':
			for i++; i < len(s) && s[i] != '"'; i++ {
				if s[i] == '\\' {
					i++
				}
			}
			i++
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			depth--
			i++
		case ' ', '\n', '\t', '\r', ',', ':':
			i++
			continue
		default:
			for i < len(s) && !strings.ContainsRune(" \n\t\r,:]}\"", rune(s[i])) {
				i++
			}
		}
		if depth < 0 {
			return 0, errJSON
		}
		if depth == 0 {
			if i > len(s) {
				break
			}
			return i, nil
		}
	}
	return 0, fmt.Errorf("%w: %w", errJSON, errTruncated)
}

// jsonText returns the string that a JSON string stands for, or "" when it is none.
func jsonText(value string) string {
	if len(value) < 2 || value[0] != '"' {
		return ""
	}
	if !strings.Contains(value, `\`) {
		return value[1 : len(value)-1]
	}
	var s string
	if json.Unmarshal([]byte(value), &s) != nil {
		return ""
	}
	return s
}

// jsonFind returns the value of the first member of that name, "" when there is none.
func jsonFind(object, name string) (value string, err error) {
	err = jsonMembers(object, func(m jsonMember) bool {
		if m.name == name {
			value = object[m.value:m.end]
			return false
		}
		return true
	})
	return value, err
}

func jsonMetadata(object string) (string, error) {
	metadata, err := jsonFind(object, "metadata")
	if err == nil && metadata == "" {
		err = fmt.Errorf("%w: the object has no metadata", errJSON)
	}
	return metadata, err
}

func jsonHeader(metadata string) (h header, err error) {
	err = jsonMembers(metadata, func(m jsonMember) bool {
		value := metadata[m.value:m.end]
		switch m.name {
		case "name":
			h.name = jsonText(value)
		case "namespace":
			h.namespace = jsonText(value)
		case "uid":
			h.uid = jsonText(value)
		case "resourceVersion":
			h.resourceVersion = jsonText(value)
		}
		return true
	})
	return h, err
}

func jsonPairs(metadata, name string, yield func(key, value string) bool) {
	object, err := jsonFind(metadata, name)
	if err != nil || object == "" {
		return
	}
	_ = jsonMembers(object, func(m jsonMember) bool {
		return yield(jsonText(object[m.start:m.start+len(m.name)+2]), jsonText(object[m.value:m.end]))
	})
}

// jsonStrip copies the object without managedFields. What it puts aside is an array.
func jsonStrip(object string, keep retention) (stripped, managed string, err error) {
	if keep.managedFields && !keep.metadataOnly {
		return strings.Clone(object), "", nil
	}
	metadata, own := "", ""
	members := make([]string, 0, 8)
	walkErr := jsonMembers(object, func(m jsonMember) bool {
		switch {
		case m.name != "metadata":
			if !keep.metadataOnly {
				members = append(members, object[m.start:m.end])
			}
			return true
		case keep.managedFields:
			metadata = object[m.value:m.end]
		default:
			metadata, own, err = jsonDropManaged(object[m.value:m.end], keep.owners)
		}
		members = append(members, `"metadata":`+metadata)
		return err == nil
	})
	if err = errors.Join(walkErr, err); err != nil {
		return "", "", err
	}
	return jsonJoin('{', members, '}'), own, nil
}

// jsonDropManaged splits metadata into all that is not managedFields and the managedFields of the owners.
func jsonDropManaged(metadata string, owners map[string]bool) (rest, managed string, err error) {
	var members, own []string
	walkErr := jsonMembers(metadata, func(m jsonMember) bool {
		if m.name != "managedFields" {
			members = append(members, metadata[m.start:m.end])
			return true
		}
		err = jsonElements(metadata[m.value:m.end], func(element string) bool {
			manager, findErr := jsonFind(element, "manager")
			if findErr == nil && owners[jsonText(manager)] {
				own = append(own, element)
			}
			return true
		})
		return err == nil
	})
	if own != nil {
		managed = jsonJoin('[', own, ']')
	}
	return jsonJoin('{', members, '}'), managed, errors.Join(walkErr, err)
}

func jsonJoin(open byte, parts []string, end byte) string {
	n := 2 + len(parts)
	for _, p := range parts {
		n += len(p)
	}
	var b strings.Builder
	b.Grow(n)
	b.WriteByte(open)
	for i, p := range parts {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(p)
	}
	b.WriteByte(end)
	return b.String()
}

func jsonManaged(s string) (managed []metav1.ManagedFieldsEntry, err error) {
	err = jsonUnmarshal(s, &managed)
	return managed, err
}

// jsonList reads a list: its metadata and its items.
func jsonList(list string) (resourceVersion, next string, items []string, err error) {
	if !json.Valid(bytesOf(list)) {
		return "", "", nil, errJSON
	}
	meta, array := "{}", "null"
	walkErr := jsonMembers(list, func(m jsonMember) bool {
		switch m.name {
		case "items":
			array = list[m.value:m.end]
		case "metadata":
			meta = list[m.value:m.end]
		}
		return true
	})
	h, headerErr := jsonHeader(meta)
	next, nextErr := jsonFind(meta, "continue")
	itemsErr := jsonElements(array, func(element string) bool {
		items = append(items, element)
		return true
	})
	return h.resourceVersion, jsonText(next), items, errors.Join(walkErr, headerErr, nextErr, itemsErr)
}

// jsonEvent reads one watch event: its type and the object.
func jsonEvent(frame string) (typ, object string, err error) {
	err = jsonMembers(frame, func(m jsonMember) bool {
		switch m.name {
		case "type":
			typ = jsonText(frame[m.value:m.end])
		case "object":
			object = frame[m.value:m.end]
		}
		return true
	})
	return typ, object, err
}

// jsonUnmarshal decodes as the API machinery does: names are case-sensitive, and whole numbers in untyped
// values are int64.
func jsonUnmarshal(s string, into any) error { return utiljson.Unmarshal(bytesOf(s), into) }
