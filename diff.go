package setpoint

import (
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/setpoint-dev/setpoint/filter"
)

// maxFields is how many fields that differ are named.
const maxFields = 8

// changedFields returns the paths of the fields in which the two states of a
// change differ, without those that every write changes.
func changedFields(change filter.Change) []string {
	if change.Old == nil || change.New == nil {
		return nil
	}
	old, now := content(change.Old), content(change.New)
	if old == nil || now == nil {
		return nil
	}
	for _, object := range []map[string]any{old, now} {
		if metadata, ok := object["metadata"].(map[string]any); ok {
			delete(metadata, "resourceVersion")
			delete(metadata, "generation")
			delete(metadata, "managedFields")
		}
	}
	fields := differences("", old, now, nil)
	return fields[:min(len(fields), maxFields)]
}

// content returns a state as JSON objects, or nil when it cannot be read.
func content(state *filter.State) map[string]any {
	object, err := state.Object()
	if err != nil {
		return nil
	}
	if u, ok := object.(runtime.Unstructured); ok {
		return runtime.DeepCopyJSON(u.UnstructuredContent())
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil
	}
	return content
}

// differences appends the paths below prefix in which two objects differ, sorted.
// A list differs as a whole.
func differences(prefix string, old, now map[string]any, found []string) []string {
	names := maps.Clone(old)
	maps.Copy(names, now)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		before, after := old[name], now[name]
		if reflect.DeepEqual(before, after) {
			continue
		}
		path := name
		if prefix != "" {
			path = prefix + "." + name
		}
		was, wasObject := before.(map[string]any)
		is, isObject := after.(map[string]any)
		if wasObject && isObject {
			found = differences(path, was, is, found)
			continue
		}
		found = append(found, path)
	}
	return found
}
