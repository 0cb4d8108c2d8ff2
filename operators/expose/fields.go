package expose

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// applies reports whether the operator has applied any field, judged by its own entries of an object's managedFields.
func applies(own []metav1.ManagedFieldsEntry) bool {
	for _, e := range own {
		if e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == "" {
			return true
		}
	}
	return false
}

// appliesField reports whether the operator has applied the field at a path such as spec, type, and nobody has changed it
// since.
func appliesField(own []metav1.ManagedFieldsEntry, path ...string) bool {
	for _, e := range own {
		if e.Operation != metav1.ManagedFieldsOperationApply || e.Subresource != "" || e.FieldsV1 == nil {
			continue
		}
		below := json.RawMessage(e.FieldsV1.GetRawBytes())
		found := true
		for _, name := range path {
			var fields map[string]json.RawMessage
			if json.Unmarshal(below, &fields) != nil {
				return false
			}
			if below, found = fields["f:"+name]; !found {
				break
			}
		}
		if found {
			return true
		}
	}
	return false
}
