package client

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
)

// declares reports whether applying want would leave the object live, and the applier's field set,
// as they are: want has exactly the fields of the set, and live has the same values in them. In
// doubt it says no.
//
// The set is FieldsV1: "f:name" is a field, `k:{"name":"x"}` an item of a list by its keys,
// `v:"x"` an item of a set, "." the thing itself; a thing without anything below it is owned as a
// whole. The set thus tells how the schema treats each list, so no schema is needed.
func declares(set, want, live map[string]any) bool {
	want = without(want, "apiVersion", "kind")
	if metadata, ok := want["metadata"].(map[string]any); ok {
		want["metadata"] = without(metadata, "name", "namespace", "uid", "resourceVersion")
		if len(want["metadata"].(map[string]any)) == 0 {
			delete(want, "metadata")
		}
	}
	return declaresFields(set, want, live)
}

func without(object map[string]any, fields ...string) map[string]any {
	out := make(map[string]any, len(object))
	for name, value := range object {
		if !slices.Contains(fields, name) {
			out[name] = value
		}
	}
	return out
}

// declaresValue compares one thing, of whatever type.
func declaresValue(set map[string]any, want, live any) bool {
	if isLeaf(set) {
		return sameJSON(want, live)
	}
	switch want := want.(type) {
	case map[string]any:
		live, ok := live.(map[string]any)
		return ok && declaresFields(set, want, live)
	case []any:
		live, ok := live.([]any)
		return ok && declaresItems(set, want, live)
	}
	return false
}

func declaresFields(set, want, live map[string]any) bool {
	fields := 0
	for path, below := range set {
		if path == "." {
			continue
		}
		name, ok := strings.CutPrefix(path, "f:")
		if !ok {
			return false
		}
		fields++
		wanted, ok := want[name]
		if !ok {
			return false
		}
		have, ok := live[name]
		if !ok || !declaresValue(asObject(below), wanted, have) {
			return false
		}
	}
	return fields == len(want)
}

// declaresItems compares a list whose items are owned one by one. The wanted items must stand in
// live in the same order, since apply would move them.
func declaresItems(set map[string]any, want, live []any) bool {
	paths := 0
	for path := range set {
		if path != "." {
			paths++
		}
	}
	if paths != len(want) {
		return false
	}
	taken := make(map[string]bool, paths)
	next := 0
	for _, wanted := range want {
		path, ok := pathOf(set, taken, wanted)
		if !ok {
			return false
		}
		taken[path] = true
		at := slices.IndexFunc(live[next:], func(have any) bool { return isAt(path, have) })
		if at < 0 {
			return false
		}
		if have := live[next+at]; !declaresValue(itemSet(path, set[path]), wanted, have) {
			return false
		}
		next += at + 1
	}
	return true
}

// itemSet is the set below an item. An item of a set of scalars has nothing below it, and is
// compared as a whole.
func itemSet(path string, below any) map[string]any {
	if strings.HasPrefix(path, "v:") {
		return nil
	}
	return asObject(below)
}

// pathOf finds the one path of the set that the wanted item stands for. An item may lack a key
// that the schema gives a default; then the set does not have that key's field below the path
// either, unless the item is owned as a whole.
func pathOf(set map[string]any, taken map[string]bool, wanted any) (path string, ok bool) {
	for candidate, below := range set {
		if candidate == "." || taken[candidate] || !standsFor(candidate, asObject(below), wanted) {
			continue
		}
		if ok {
			return "", false
		}
		path, ok = candidate, true
	}
	return path, ok
}

func standsFor(path string, below map[string]any, wanted any) bool {
	if value, ok := strings.CutPrefix(path, "v:"); ok {
		return equalsText(value, wanted)
	}
	keys, ok := keysOf(path)
	if !ok {
		return false
	}
	item, ok := wanted.(map[string]any)
	if !ok {
		return false
	}
	for name, key := range keys {
		value, given := item[name]
		_, owned := below["f:"+name]
		owned = owned || len(below) == 0
		if given != owned || given && !sameJSON(key, value) {
			return false
		}
	}
	return true
}

// isAt reports whether an item of the live list has the path.
func isAt(path string, have any) bool {
	if value, ok := strings.CutPrefix(path, "v:"); ok {
		return equalsText(value, have)
	}
	keys, ok := keysOf(path)
	item, isObject := have.(map[string]any)
	if !ok || !isObject {
		return false
	}
	for name, key := range keys {
		if value, given := item[name]; !given || !sameJSON(key, value) {
			return false
		}
	}
	return true
}

func keysOf(path string) (map[string]any, bool) {
	text, ok := strings.CutPrefix(path, "k:")
	if !ok {
		return nil, false
	}
	var keys map[string]any
	err := json.Unmarshal([]byte(text), &keys)
	return keys, err == nil
}

func equalsText(text string, value any) bool {
	var parsed any
	return json.Unmarshal([]byte(text), &parsed) == nil && sameJSON(parsed, value)
}

func asObject(value any) map[string]any {
	object, _ := value.(map[string]any)
	return object
}

// sameJSON compares JSON values, in which an integer may stand as int64 or as float64.
func sameJSON(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name, value := range a {
			other, ok := b[name]
			if !ok || !sameJSON(value, other) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, sameJSON)
	}
	if a == b {
		return true
	}
	x, xIsNumber := number(a)
	y, yIsNumber := number(b)
	return xIsNumber && yIsNumber && x == y
}

func number(value any) (float64, bool) {
	switch value := value.(type) {
	case int64:
		return float64(value), true
	case float64:
		return value, true
	}
	return 0, false
}

// sameObject reports whether two objects of one type do not differ at all.
func sameObject(a, b Object) bool { return equality.Semantic.DeepEqual(a, b) }

// sameForStatus reports whether two objects do not differ in what a write of their status can
// change.
func sameForStatus(a, b Object) bool {
	return equality.Semantic.DeepEqual(a.GetLabels(), b.GetLabels()) &&
		equality.Semantic.DeepEqual(a.GetAnnotations(), b.GetAnnotations()) &&
		equality.Semantic.DeepEqual(a.GetFinalizers(), b.GetFinalizers()) &&
		equality.Semantic.DeepEqual(a.GetOwnerReferences(), b.GetOwnerReferences()) &&
		sameStatus(a, b)
}

// sameStatus reports whether two objects of one type have the same status, or none.
func sameStatus(a, b Object) bool {
	return equality.Semantic.DeepEqual(statusOf(a), statusOf(b))
}

func statusOf(obj Object) any {
	if u, ok := obj.(interface{ UnstructuredContent() map[string]any }); ok {
		return u.UnstructuredContent()["status"]
	}
	value := reflect.ValueOf(obj).Elem()
	if value.Kind() != reflect.Struct {
		return nil
	}
	if status := value.FieldByName("Status"); status.IsValid() {
		return status.Interface()
	}
	return nil
}
