package expose

import (
	"cmp"
	"net"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// domainOfAddress makes a domain of an IPv4 address: all names below it resolve to the address.
const domainOfAddress = ".nip.io"

// facts is what a plan depends on beside the Service and the configuration.
type facts struct {
	nodes []corev1.Node
	// routes says whether the cluster serves HTTPRoutes. If not, missing says why, once that is known.
	routes  bool
	missing error
}

// needsNodes reports whether the plan for a Service depends on the Nodes.
func needsNodes(service *corev1.Service, c Config) bool {
	s := &settings{service: service}
	switch exposerOf(s, c) {
	case exposerNodePort:
		return c.NodeIP == "" && s.asked()
	case exposerLoadBalancer:
		return false
	}
	return c.Domain == "" && s.asked()
}

// domain returns the domain that leads to the cluster without any setting, or "".
func (f facts) domain() string {
	var labelled []corev1.Node
	for _, n := range f.nodes {
		if n.Labels[externalIP] == "true" {
			labelled = append(labelled, n)
		}
	}
	if len(labelled) == 0 && len(f.nodes) == 1 {
		labelled = f.nodes
	}
	if len(labelled) != 1 {
		return ""
	}
	address := nodeAddress(labelled[0])
	if ip := net.ParseIP(address); ip == nil || ip.To4() == nil {
		return ""
	}
	return address + domainOfAddress
}

// address returns the address of node ports without any setting, or "".
func (f facts) address() string {
	nodes := slices.SortedFunc(slices.Values(f.nodes), func(a, b corev1.Node) int {
		return cmp.Or(cmp.Compare(preference(a), preference(b)), cmp.Compare(a.Name, b.Name))
	})
	for _, n := range nodes {
		if address := nodeAddress(n); address != "" {
			return address
		}
	}
	return ""
}

// preference orders nodes by how likely they are reached from outside.
func preference(n corev1.Node) int {
	switch {
	case n.Annotations[externalIP] != "", n.Labels[externalIP] == "true":
		return 0
	case addressOf(n, corev1.NodeExternalIP) != "":
		return 1
	}
	return 2
}

func nodeAddress(n corev1.Node) string {
	return cmp.Or(n.Annotations[externalIP], addressOf(n, corev1.NodeExternalIP), addressOf(n, corev1.NodeInternalIP))
}

func addressOf(n corev1.Node, kind corev1.NodeAddressType) string {
	for _, a := range n.Status.Addresses {
		if a.Type == kind {
			return a.Address
		}
	}
	return ""
}
