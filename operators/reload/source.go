package reload

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// The kinds of sources.
const (
	kindConfigMap = "ConfigMap"
	kindSecret    = "Secret"
)

// source names a ConfigMap or Secret in the namespace of the workload that is spoken of.
type source struct{ kind, name string }

// String is what the source is called in the index.
func (s source) String() string { return s.kind + "/" + s.name }

// MarshalText makes a source the key of a JSON object.
func (s source) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (s *source) UnmarshalText(text []byte) error {
	kind, name, ok := strings.Cut(string(text), "/")
	if !ok || kind != kindConfigMap && kind != kindSecret || name == "" {
		return fmt.Errorf("%q names no source", text)
	}
	*s = source{kind, name}
	return nil
}

// compare orders sources by kind and name.
func (s source) compare(other source) int {
	if c := strings.Compare(s.kind, other.kind); c != 0 {
		return c
	}
	return strings.Compare(s.name, other.name)
}

// reference is how a Pod template refers to a source, all references taken together.
type reference struct {
	// required: no Pod starts without the source.
	required bool
	// frozen: a running Pod does not see it change in at least one place.
	frozen bool
}

// references returns the sources that a Pod template refers to in environment variables and volumes of any container.
// Image pull secrets are not among them: they matter only to Pods that start.
func references(spec *corev1.PodSpec) map[source]*reference {
	refs := referenceSet{}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			refs.addEnvironment(&containers[i])
		}
	}
	for i := range spec.Volumes {
		refs.addVolume(&spec.Volumes[i], mountedBySubPath(spec, spec.Volumes[i].Name))
	}
	return refs
}

type referenceSet map[source]*reference

func (r referenceSet) add(kind, name string, optional *bool, frozen bool) {
	if name == "" {
		return
	}
	s := source{kind, name}
	ref := r[s]
	if ref == nil {
		ref = &reference{}
		r[s] = ref
	}
	ref.required = ref.required || optional == nil || !*optional
	ref.frozen = ref.frozen || frozen
}

func (r referenceSet) addEnvironment(c *corev1.Container) {
	for _, from := range c.EnvFrom {
		if ref := from.ConfigMapRef; ref != nil {
			r.add(kindConfigMap, ref.Name, ref.Optional, true)
		}
		if ref := from.SecretRef; ref != nil {
			r.add(kindSecret, ref.Name, ref.Optional, true)
		}
	}
	for _, variable := range c.Env {
		if variable.ValueFrom == nil {
			continue
		}
		if ref := variable.ValueFrom.ConfigMapKeyRef; ref != nil {
			r.add(kindConfigMap, ref.Name, ref.Optional, true)
		}
		if ref := variable.ValueFrom.SecretKeyRef; ref != nil {
			r.add(kindSecret, ref.Name, ref.Optional, true)
		}
	}
}

func (r referenceSet) addVolume(v *corev1.Volume, frozen bool) {
	if ref := v.ConfigMap; ref != nil {
		r.add(kindConfigMap, ref.Name, ref.Optional, frozen)
	}
	if ref := v.Secret; ref != nil {
		r.add(kindSecret, ref.SecretName, ref.Optional, frozen)
	}
	if v.Projected == nil {
		return
	}
	for _, part := range v.Projected.Sources {
		if ref := part.ConfigMap; ref != nil {
			r.add(kindConfigMap, ref.Name, ref.Optional, frozen)
		}
		if ref := part.Secret; ref != nil {
			r.add(kindSecret, ref.Name, ref.Optional, frozen)
		}
	}
}

// mountedBySubPath reports whether a container mounts a part of the volume: such a mount is never updated.
func mountedBySubPath(spec *corev1.PodSpec, volume string) bool {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			for _, m := range containers[i].VolumeMounts {
				if m.Name == volume && (m.SubPath != "" || m.SubPathExpr != "") {
					return true
				}
			}
		}
	}
	return false
}
