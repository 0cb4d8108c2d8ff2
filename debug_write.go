package setpoint

import (
	"encoding/json"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/telemetry/debug"
)

// kindOf returns the name of a resource's kind, or of the resource when the mapper
// does not know it.
func (c *Cluster) kindOf(resource schema.GroupVersionResource) string {
	if gvk, err := c.mapper.KindFor(resource); err == nil {
		return kindName(gvk)
	}
	return resource.GroupResource().String()
}

// debugWrite describes a write for the history.
func debugWrite(cluster, kind string, r client.Request, w client.Written) debug.Write {
	verb := r.Verb
	if w.ContentType == string(types.ApplyPatchType) || w.ContentType == string(types.ApplyCBORPatchType) {
		verb = "apply"
	}
	d := debug.Write{
		Verb: verb, Kind: kind, Subresource: r.Subresource, Version: w.Version,
		Object: Request{cluster, r.Namespace, w.Name}.String(), Fields: namedFields(w),
	}
	if w.Err != nil {
		d.Error = short(w.Err)
	}
	return d
}

// namedFields returns the fields that the body of a patch or an apply names, two
// levels deep, at most maxFields of them.
func namedFields(w client.Written) []string {
	switch types.PatchType(w.ContentType) {
	case types.MergePatchType, types.StrategicMergePatchType, types.ApplyPatchType:
	default:
		return nil
	}
	var body map[string]json.RawMessage
	if json.Unmarshal(w.Body, &body) != nil {
		return nil
	}
	var fields []string
	for _, name := range slices.Sorted(maps.Keys(body)) {
		var below map[string]json.RawMessage
		switch {
		case name == "apiVersion" || name == "kind":
		case json.Unmarshal(body[name], &below) == nil && len(below) > 0:
			for _, field := range slices.Sorted(maps.Keys(below)) {
				switch path := name + "." + field; path {
				case "metadata.name", "metadata.namespace", "metadata.uid": // which object, not what of it
				default:
					fields = append(fields, path)
				}
			}
		default:
			fields = append(fields, name)
		}
	}
	return fields[:min(len(fields), maxFields)]
}
