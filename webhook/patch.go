package webhook

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// operation is a step of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value *any   `json:"value,omitempty"` // nil for a removal; may point to nil, which is null
}

// escape writes a field's name as a part of a path (RFC 6901).
var escape = strings.NewReplacer("~", "~0", "/", "~1")

// diff returns the steps that make before into after, in the order of the
// fields' names. Lists that change their length are replaced as a whole.
func diff(before, after any) []operation {
	var steps []operation
	compare(&steps, "", before, after)
	return steps
}

func compare(steps *[]operation, path string, before, after any) {
	if reflect.DeepEqual(before, after) {
		return
	}
	switch a := after.(type) {
	case map[string]any:
		if b, ok := before.(map[string]any); ok {
			compareMaps(steps, path, b, a)
			return
		}
	case []any:
		if b, ok := before.([]any); ok && len(b) == len(a) {
			for i := range a {
				compare(steps, path+"/"+strconv.Itoa(i), b[i], a[i])
			}
			return
		}
	}
	*steps = append(*steps, operation{Op: "replace", Path: path, Value: &after})
}

func compareMaps(steps *[]operation, path string, before, after map[string]any) {
	names := maps.Clone(before)
	maps.Copy(names, after)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		was, had := before[name]
		is, has := after[name]
		at := path + "/" + escape.Replace(name)
		switch {
		case !has:
			*steps = append(*steps, operation{Op: "remove", Path: at})
		case !had:
			*steps = append(*steps, operation{Op: "add", Path: at, Value: &is})
		default:
			compare(steps, at, was, is)
		}
	}
}
