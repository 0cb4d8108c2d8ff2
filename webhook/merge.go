package webhook

import "reflect"

// merge returns raw with the changes that lead from before to after. raw is the
// object as it was sent; before and after are what a Go type makes of it, which
// may lack what the type does not know and have empty fields that were not sent.
// No argument is changed; the result shares parts with them.
func merge(raw, before, after any) any {
	if reflect.DeepEqual(before, after) {
		return raw
	}
	switch after := after.(type) {
	case map[string]any:
		raw, isMap := raw.(map[string]any)
		if !isMap {
			return after
		}
		before, _ := before.(map[string]any)
		return mergeMaps(raw, before, after)
	case []any:
		raw, isList := raw.([]any)
		before, wasList := before.([]any)
		if !isList || !wasList || len(raw) != len(before) {
			return after
		}
		return mergeLists(raw, before, after)
	}
	return after
}

func mergeMaps(raw, before, after map[string]any) map[string]any {
	out := make(map[string]any, len(raw)+1)
	for field, value := range raw {
		_, had := before[field]
		_, has := after[field]
		if has || !had { // kept or not known to the type, and not removed
			out[field] = value
		}
	}
	for field, value := range after {
		was, had := before[field]
		if had && reflect.DeepEqual(was, value) {
			continue
		}
		out[field] = merge(raw[field], was, value)
	}
	return out
}

func mergeLists(raw, before, after []any) []any {
	out := make([]any, len(after))
	for i, from := range origins(before, after) {
		if from < 0 {
			out[i] = after[i]
			continue
		}
		out[i] = merge(raw[from], before[from], after[i])
	}
	return out
}

// identities are the fields by which elements of lists in Kubernetes' APIs, and
// by convention in others, are told apart.
var identities = [...]string{"name", "key", "type", "id"}

// origins says which element of before each element of after was: the same one
// unchanged, else one with the same identity, else, in a list of the same length
// whose elements have no identity, the one in the same place. -1 is a new one.
func origins(before, after []any) []int {
	from := make([]int, len(after))
	taken := make([]bool, len(before))
	match := func(i int, same func(a, b any) bool) {
		for step := range before {
			// The same place first, so that equal elements stay in order.
			if j := (i + step) % len(before); !taken[j] && same(before[j], after[i]) {
				from[i], taken[j] = j, true
				return
			}
		}
	}
	for i := range after {
		from[i] = -1
		match(i, reflect.DeepEqual)
	}
	for i := range after {
		if from[i] < 0 {
			match(i, sameIdentity)
		}
	}
	for i := range after {
		if from[i] < 0 && len(before) == len(after) && !taken[i] && identity(before[i]) == nil && identity(after[i]) == nil {
			from[i], taken[i] = i, true
		}
	}
	return from
}

func sameIdentity(a, b any) bool {
	id := identity(a)
	return id != nil && reflect.DeepEqual(id, identity(b))
}

// identity returns the field and value that tell an element apart, or nil.
func identity(element any) any {
	fields, _ := element.(map[string]any)
	for _, field := range identities {
		if value, ok := fields[field].(string); ok && value != "" {
			return [2]string{field, value}
		}
	}
	return nil
}
