package expose

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// settings reads what a Service asks for, and notes what makes no sense.
type settings struct {
	service  *corev1.Service
	problems problems
}

// text returns the value of the first of the annotations that there is, without space around it.
func (s *settings) text(names ...string) string {
	for _, name := range names {
		if value := strings.TrimSpace(s.service.Annotations[name]); value != "" {
			return value
		}
	}
	return ""
}

// truth returns the value of a true-or-false annotation; known is false if there is none, or one that makes no sense.
func (s *settings) truth(name string) (value, known bool) {
	text := s.text(name)
	if text == "" {
		return false, false
	}
	value, err := strconv.ParseBool(text)
	if err != nil {
		s.problems.add(reasonInvalidAnnotation, "The annotation %s is %q; say true or false.", name, text)
		return false, false
	}
	return value, true
}

// asked reports whether the Service asks to be exposed.
func (s *settings) asked() bool {
	if value, known := s.truth(askOwn); known {
		return value
	}
	return s.text(askLegacy) == "true" || s.text(askInject) == "true" || s.service.Labels[askLabel] == "true"
}

// asks reports whether a Service asks to be exposed.
func asks(service *corev1.Service) bool {
	return (&settings{service: service}).asked()
}

// ingressName returns the name of the Service's Ingress.
func (s *settings) ingressName() string {
	if name := s.text(ingressNameOwn, ingressNameLegacy); name != "" {
		return name
	}
	return s.shortName()
}

// shortName returns the Service's name without the release that its label names.
func (s *settings) shortName() string {
	release := s.service.Labels[releaseLabel]
	if short := strings.TrimPrefix(s.service.Name, release+"-"); release != "" && short != "" {
		return short
	}
	return s.service.Name
}

// extraAnnotations reads lines of the form "key: value". Empty lines mean nothing; others that make no sense are noted and
// left out.
func (s *settings) extraAnnotations() map[string]string {
	extra := map[string]string{}
	for i, line := range strings.Split(s.text(annotationsOwn, annotationsLegacy), "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		key, value, found := strings.Cut(line, ":")
		key = strings.TrimSpace(key)
		switch wrong := validation.IsQualifiedName(strings.ToLower(key)); {
		case !found:
			s.problems.add(reasonInvalidAnnotation, "Line %d of the annotations for the Ingress is left out: %q has no colon; write key: value.", i+1, line)
		case len(wrong) > 0:
			s.problems.add(reasonInvalidAnnotation, "Line %d of the annotations for the Ingress is left out: %q is no name of an annotation: %s.", i+1, key, strings.Join(wrong, "; "))
		case key == mark:
			s.problems.add(reasonInvalidAnnotation, "Line %d of the annotations for the Ingress is left out: %s is the operator's own.", i+1, key)
		default:
			extra[key] = strings.TrimSpace(value)
		}
	}
	return extra
}

// hostAnnotation returns the name of the annotation that is to receive the host, or "".
func (s *settings) hostAnnotation() string {
	name := s.text(hostAnnotationOwn, hostAnnotationOther)
	if name == "" {
		return ""
	}
	wrong := validation.IsQualifiedName(strings.ToLower(name))
	switch {
	case len(wrong) > 0:
		s.problems.add(reasonInvalidAnnotation, "The host is written to no further annotation: %q is no name of one: %s.", name, strings.Join(wrong, "; "))
	case strings.HasPrefix(name, ownPrefix), slices.Contains(legacyNames, name):
		s.problems.add(reasonInvalidAnnotation, "The host is written to no further annotation: %q has a meaning of its own; name another.", name)
	default:
		return name
	}
	return ""
}

// port returns the port to expose: the one that is asked for by number or name, else the first.
func (s *settings) port() (port corev1.ServicePort, ok bool) {
	ports := s.service.Spec.Ports
	if len(ports) == 0 {
		s.problems.add(reasonNoPorts, "The Service has no ports, so there is nothing to expose.")
		return corev1.ServicePort{}, false
	}
	wanted := s.text(portOwn, portLegacy)
	if wanted == "" {
		return ports[0], true
	}
	known := make([]string, len(ports))
	for i, p := range ports {
		if wanted == strconv.Itoa(int(p.Port)) || wanted == p.Name {
			return p, true
		}
		known[i] = strings.TrimSuffix(fmt.Sprintf("%d %s", p.Port, p.Name), " ")
	}
	s.problems.add(reasonUnknownPort, "The Service has no port %q, so its first is exposed; it has %s.", wanted, strings.Join(known, ", "))
	return ports[0], true
}
