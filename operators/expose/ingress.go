package expose

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// member is a Service of an Ingress.
type member struct {
	service *corev1.Service
	plan    plan
}

// membersOf returns those of the Services, sorted by name, that belong to an Ingress or keep what they have in it.
func membersOf(services []corev1.Service, c Config, f facts) []member {
	var members []member
	for i := range services {
		p := planOf(&services[i], c, f)
		if p.exposer == exposerIngress || p.held {
			members = append(members, member{&services[i], p})
		}
	}
	slices.SortFunc(members, func(a, b member) int { return byName(a.service, b.service) })
	return members
}

// holding returns the Services as members that keep what they have.
func holding(services []corev1.Service) []member {
	members := make([]member, len(services))
	for i := range services {
		members[i] = member{&services[i], plan{held: true}}
	}
	return members
}

func byName(a, b *corev1.Service) int { return cmp.Compare(a.Name, b.Name) }

// place is where a rule applies.
type place struct{ host, path string }

// draft is an Ingress in the making.
type draft struct {
	rules       map[place]networkingv1.HTTPIngressPath
	tls         map[string]map[string]bool // hosts by Secret
	annotations map[string]string
	class       string
	owners      []*corev1.Service
	problems    map[string]problems // by the Service's name
}

// desiredIngress returns the Ingress that its members ask for, with the fields that the operator owns and no others, or nil
// if they ask for none; and what is wrong with each member's part. Existing is the operator's Ingress of that name, with
// the operator's managedFields, or nil. Members come in the order in which they have precedence.
func desiredIngress(key types.NamespacedName, members []member, existing *networkingv1.Ingress) (*networkingv1.Ingress, map[string]problems) {
	d := draft{
		rules: map[place]networkingv1.HTTPIngressPath{}, tls: map[string]map[string]bool{},
		annotations: map[string]string{}, problems: map[string]problems{},
	}
	for _, m := range members {
		if !m.plan.held {
			d.add(m)
		}
	}
	for _, m := range members {
		if m.plan.held && existing != nil {
			d.keep(m, existing)
		}
	}
	if len(d.rules) == 0 {
		return nil, d.problems
	}
	ingress := claimIngress(key, "")
	slices.SortFunc(d.owners, byName)
	ingress.OwnerReferences = ownersOf(d.owners)
	maps.Copy(d.annotations, ingress.Annotations)
	ingress.Annotations = d.annotations
	ingress.Spec = networkingv1.IngressSpec{Rules: d.sortedRules(), TLS: d.sortedTLS()}
	// The annotation is how classes were named before there was a field; an Ingress cannot have both.
	if _, byAnnotation := d.annotations[classAnnotation]; d.class != "" && !byAnnotation {
		ingress.Spec.IngressClassName = &d.class
	}
	if existing != nil {
		ingress.UID = existing.UID
	}
	return ingress, d.problems
}

// claimIngress returns the Ingress that claims its name: it is the operator's, and routes nothing.
func claimIngress(key types.NamespacedName, host string) *networkingv1.Ingress {
	return &networkingv1.Ingress{
		TypeMeta: metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "Ingress"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name,
			Labels:      map[string]string{managedByLabel: FieldOwner},
			Annotations: map[string]string{mark: key.String()},
		},
		Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{Host: host}}},
	}
}

// claimFor is claimIngress for a wanted Ingress. Without a class the server would give it the default one, beside that of the
// annotation; the value is not yet the wanted one, so that the apply owns it alone.
func claimFor(key types.NamespacedName, wanted *networkingv1.Ingress) *networkingv1.Ingress {
	claim := claimIngress(key, wanted.Spec.Rules[0].Host)
	if _, byAnnotation := wanted.Annotations[classAnnotation]; byAnnotation {
		claim.Annotations[classAnnotation] = FieldOwner
	}
	return claim
}

// ownersOf returns references to the Services, none of them as the controller: the garbage collector deletes what they own
// when the last of them is gone.
func ownersOf(services []*corev1.Service) []metav1.OwnerReference {
	var owners []metav1.OwnerReference
	for _, s := range services {
		owners = append(owners, metav1.OwnerReference{APIVersion: "v1", Kind: "Service", Name: s.Name, UID: s.UID})
	}
	return owners
}

// add adds what a member asks for, as far as nobody before it has it.
func (d *draft) add(m member) {
	p, name := m.plan, m.service.Name
	complain := func(reason, format string, args ...any) {
		mine := d.problems[name]
		mine.add(reason, format, args...)
		d.problems[name] = mine
	}
	at := place{p.host, p.path}
	if taken, is := d.rules[at]; is {
		complain(reasonPathTaken, "%s%s of Ingress %q belongs to Service %q; give this one another path or host.", p.host, p.path, p.ingressName, taken.Backend.Service.Name)
		return
	}
	kind := p.pathType
	d.rules[at] = networkingv1.HTTPIngressPath{
		Path: p.path, PathType: &kind,
		Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
			Name: name, Port: networkingv1.ServiceBackendPort{Number: p.port.Port},
		}},
	}
	d.owners = append(d.owners, m.service)
	if p.tls.on {
		d.secure(p.tls.secret, p.tls.host)
	}
	for _, key := range slices.Sorted(maps.Keys(p.annotations)) {
		if other, is := d.annotations[key]; is && other != p.annotations[key] {
			complain(reasonConflict, "Another Service sets the annotation %s of Ingress %q to %q; give this one an Ingress of its own, or the same value.", key, p.ingressName, other)
			continue
		}
		d.annotations[key] = p.annotations[key]
	}
	if p.class != "" && d.class != "" && p.class != d.class {
		complain(reasonConflict, "Another Service sets the class of Ingress %q to %q; give this one an Ingress of its own, or the same class.", p.ingressName, d.class)
	}
	d.class = cmp.Or(d.class, p.class)
}

func (d *draft) secure(secret, host string) {
	if d.tls[secret] == nil {
		d.tls[secret] = map[string]bool{}
	}
	d.tls[secret][host] = true
}

// keep keeps what a member has in the existing Ingress, as far as nobody asks for it.
func (d *draft) keep(m member, existing *networkingv1.Ingress) {
	hosts := map[string]bool{}
	for _, rule := range existing.Spec.Rules {
		if rule.HTTP == nil {
			continue
		}
		for _, path := range rule.HTTP.Paths {
			at := place{rule.Host, path.Path}
			_, taken := d.rules[at]
			if backend := path.Backend.Service; !taken && backend != nil && backend.Name == m.service.Name {
				d.rules[at] = path
				hosts[rule.Host] = true
			}
		}
	}
	if len(hosts) == 0 {
		return
	}
	d.owners = append(d.owners, m.service)
	for _, t := range existing.Spec.TLS {
		for _, host := range t.Hosts {
			if hosts[host] || len(host) > 2 && host[:2] == "*." {
				d.secure(t.SecretName, host)
			}
		}
	}
	if existing.Spec.IngressClassName != nil {
		d.class = cmp.Or(d.class, *existing.Spec.IngressClassName)
	}
	for key, value := range existing.Annotations {
		if _, set := d.annotations[key]; !set && appliesField(existing.ManagedFields, "metadata", "annotations", key) {
			d.annotations[key] = value
		}
	}
}

// sortedRules returns one rule for each host, with the longer of two paths before the shorter.
func (d *draft) sortedRules() []networkingv1.IngressRule {
	places := slices.SortedFunc(maps.Keys(d.rules), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.host, b.host), cmp.Compare(b.path, a.path))
	})
	var rules []networkingv1.IngressRule
	for _, at := range places {
		if len(rules) == 0 || rules[len(rules)-1].Host != at.host {
			rules = append(rules, networkingv1.IngressRule{Host: at.host, IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{}}})
		}
		http := rules[len(rules)-1].HTTP
		http.Paths = append(http.Paths, d.rules[at])
	}
	return rules
}

func (d *draft) sortedTLS() []networkingv1.IngressTLS {
	var tls []networkingv1.IngressTLS
	for _, secret := range slices.Sorted(maps.Keys(d.tls)) {
		tls = append(tls, networkingv1.IngressTLS{SecretName: secret, Hosts: slices.Sorted(maps.Keys(d.tls[secret]))})
	}
	return tls
}

// wayThrough says whether an Ingress has the rule that the plan of a Service asks for.
func wayThrough(ingress *networkingv1.Ingress, service string, p plan) way {
	for _, rule := range ingress.Spec.Rules {
		if rule.Host != p.host || rule.HTTP == nil {
			continue
		}
		for _, path := range rule.HTTP.Paths {
			if path.Path != p.path || path.Backend.Service == nil {
				continue
			}
			if path.Backend.Service.Name == service {
				return open
			}
			return blocked
		}
	}
	return coming
}
