package expose

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/setpoint-dev/setpoint/condition"
)

// routeKind is the kind HTTPRoute of the Gateway API, which is no dependency: the operator writes a dozen of its fields.
var routeKind = schema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "HTTPRoute"}

// gateway names a Gateway, or a listener of it.
type gateway struct{ namespace, name, section string }

// gateways returns the Gateways of the Service's HTTPRoute, if it is to have one.
func (s *settings) gateways(exposer string, c Config) ([]gateway, bool) {
	if exposer != exposerRoute {
		return nil, true
	}
	items := split(cmp.Or(s.text(gatewayOwn), c.Gateway))
	if len(items) == 0 {
		s.hold(reasonNoGateway, "An HTTPRoute needs a Gateway: set gateway in the configuration, or the annotation %s.", gatewayOwn)
		return nil, false
	}
	var gateways []gateway
	for _, item := range items {
		g := gateway{}
		parts := strings.Split(item, "/")
		switch len(parts) {
		case 1:
			g = gateway{name: parts[0]}
		case 2:
			g = gateway{namespace: parts[0], name: parts[1]}
		case 3:
			g = gateway{namespace: parts[0], name: parts[1], section: parts[2]}
		}
		wrong := len(validation.IsDNS1123Subdomain(g.name)) > 0 || g.namespace != "" && len(validation.IsDNS1123Label(g.namespace)) > 0 ||
			g.section != "" && len(validation.IsDNS1123Subdomain(g.section)) > 0
		if wrong {
			s.hold(reasonNoGateway, "%q names no Gateway: write [namespace/]name[/section].", item)
			return nil, false
		}
		gateways = append(gateways, g)
	}
	return gateways, true
}

// newRoute returns an HTTPRoute for a Service that has a name and nothing else.
func newRoute(key types.NamespacedName) *unstructured.Unstructured {
	route := &unstructured.Unstructured{}
	route.SetGroupVersionKind(routeKind)
	route.SetNamespace(key.Namespace)
	route.SetName(key.Name)
	return route
}

// claimRoute returns the HTTPRoute that claims its name: it is the operator's, belongs to no Gateway and routes nothing.
func claimRoute(key types.NamespacedName) *unstructured.Unstructured {
	route := newRoute(key)
	route.SetLabels(map[string]string{managedByLabel: FieldOwner})
	route.SetAnnotations(map[string]string{mark: key.String()})
	route.Object["spec"] = map[string]any{}
	return route
}

// desiredRoute returns the HTTPRoute of a Service, with the fields that the operator owns and no others. It has the
// Service's name: Services need not share one, because Gateways merge all that have the same host.
func desiredRoute(service *corev1.Service, p plan, uid types.UID) *unstructured.Unstructured {
	route := claimRoute(types.NamespacedName{Namespace: service.Namespace, Name: service.Name})
	route.SetUID(uid)
	annotations := map[string]string{mark: route.GetAnnotations()[mark]}
	for key, value := range p.annotations {
		annotations[key] = value
	}
	route.SetAnnotations(annotations)
	route.SetOwnerReferences(ownersOf([]*corev1.Service{service}))
	var parents []any
	for _, g := range p.gateways {
		parent := map[string]any{"group": routeKind.Group, "kind": "Gateway", "name": g.name}
		if g.namespace != "" {
			parent["namespace"] = g.namespace
		}
		if g.section != "" {
			parent["sectionName"] = g.section
		}
		parents = append(parents, parent)
	}
	match := map[networkingv1.PathType]string{
		networkingv1.PathTypePrefix: "PathPrefix", networkingv1.PathTypeExact: "Exact",
		networkingv1.PathTypeImplementationSpecific: "RegularExpression",
	}[p.pathType]
	route.Object["spec"] = map[string]any{
		"parentRefs": parents,
		"hostnames":  []any{p.host},
		"rules": []any{map[string]any{
			"matches":     []any{map[string]any{"path": map[string]any{"type": match, "value": p.path}}},
			"backendRefs": []any{map[string]any{"group": "", "kind": "Service", "name": service.Name, "port": int64(p.port.Port), "weight": int64(1)}},
		}},
	}
	return route
}

// refusal returns why no Gateway accepts an HTTPRoute as it is now, or "" if one does, or may yet.
func refusal(route *unstructured.Unstructured) string {
	parents, _, err := unstructured.NestedSlice(route.Object, "status", "parents")
	if err != nil || len(parents) == 0 {
		return ""
	}
	var reasons []string
	for _, p := range parents {
		var parent struct {
			ParentRef struct {
				Name string `json:"name"`
			} `json:"parentRef"`
			Conditions []metav1.Condition `json:"conditions"`
		}
		object, _ := p.(map[string]any)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &parent); err != nil {
			return "" // written by no Gateway
		}
		accepted, found := condition.Get(parent.Conditions, "Accepted")
		if !found || accepted.Status != metav1.ConditionFalse || accepted.ObservedGeneration < route.GetGeneration() {
			return ""
		}
		reasons = append(reasons, fmt.Sprintf("%s: %s: %s", parent.ParentRef.Name, accepted.Reason, accepted.Message))
	}
	return strings.Join(reasons, "; ")
}
