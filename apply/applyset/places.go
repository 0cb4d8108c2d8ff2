package applyset

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/client"
)

// place is a kind, in a namespace or cluster-scoped.
type place struct {
	kind      schema.GroupKind
	namespace string
}

// places are sorted, and each is there once.
type places []place

// placesOf reads the parent's annotation. What it cannot read it passes over: it was not written
// by this package.
func placesOf(parent client.Object) places {
	var p places
	for text := range strings.SplitSeq(parent.GetAnnotations()[Annotation], ",") {
		if namespace, kind, ok := strings.Cut(text, "/"); ok && kind != "" {
			p = append(p, place{kind: schema.ParseGroupKind(kind), namespace: namespace})
		}
	}
	return p.sorted()
}

// String is the annotation's value:
// "default/Deployment.apps,default/Service,/ClusterRole.rbac.authorization.k8s.io".
func (p places) String() string {
	var texts []string
	for _, place := range p {
		texts = append(texts, place.namespace+"/"+place.kind.String())
	}
	return strings.Join(texts, ",")
}

func (p places) with(more places) places {
	return slices.Concat(p, more).sorted()
}

func (p places) sorted() places {
	slices.SortFunc(p, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.kind.String(), b.kind.String()))
	})
	return slices.Compact(p)
}
