package webhook

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ConvertPath is where manifests made by kubebuilder expect conversion.
const ConvertPath = "/convert"

// ValidatePath returns where manifests made by kubebuilder expect the validating
// webhook of a kind, such as /validate-apps-v1-deployment.
func ValidatePath(gvk schema.GroupVersionKind) string { return path("/validate-", gvk) }

// MutatePath returns where manifests made by kubebuilder expect the mutating
// webhook of a kind, such as /mutate--v1-pod.
func MutatePath(gvk schema.GroupVersionKind) string { return path("/mutate-", gvk) }

func path(verb string, gvk schema.GroupVersionKind) string {
	return verb + strings.ReplaceAll(gvk.Group, ".", "-") + "-" + gvk.Version + "-" + strings.ToLower(gvk.Kind)
}
