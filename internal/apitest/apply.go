package apitest

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// owning returns the patch of an apply with the field sets of all appliers of the
// object, of which the one that applies now has what it applies. Lists are owned
// as a whole. What others change stays in the set: only its value is another.
func (c *call) owning(old, patch object) object {
	manager := c.http.URL.Query().Get("fieldManager")
	metadata, _ := old["metadata"].(map[string]any)
	entries, _ := metadata["managedFields"].([]any)
	var kept []any
	for _, entry := range entries {
		if e, ok := entry.(map[string]any); ok && (e["manager"] != manager || e["subresource"] != c.subresource()) {
			kept = append(kept, entry)
		}
	}
	entry := object{
		"manager": manager, "operation": "Apply", "apiVersion": c.kind.GroupVersion().String(),
		"fieldsType": "FieldsV1", "fieldsV1": fieldsOf(applied(patch)),
	}
	if subresource := c.subresource(); subresource != nil {
		entry["subresource"] = subresource
	}
	out := merge(object{}, patch)
	if err := unstructured.SetNestedSlice(out, append(kept, any(entry)), "metadata", "managedFields"); err != nil {
		panic(err)
	}
	return out
}

// subresource is as a field set has it: nil for none.
func (c *call) subresource() any {
	if c.Subresource == "" {
		return nil
	}
	return c.Subresource
}

// applied returns what of a patch is fields, not the object's name.
func applied(patch object) object {
	out := normal(patch)
	for _, path := range [][]string{
		{"apiVersion"}, {"kind"}, {"metadata", "name"}, {"metadata", "namespace"}, {"metadata", "uid"},
		{"metadata", "resourceVersion"}, {"metadata", "managedFields"}, {"metadata", "creationTimestamp"},
	} {
		unstructured.RemoveNestedField(out, path...)
	}
	if metadata, ok := out["metadata"].(map[string]any); ok && len(metadata) == 0 {
		delete(out, "metadata")
	}
	return out
}

// fieldsOf returns the field set of the content.
func fieldsOf(content object) object {
	set := object{}
	for field, value := range content {
		below, _ := value.(map[string]any)
		set["f:"+field] = fieldsOf(below)
	}
	return set
}
