package setpoint

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// verbOrder returns the verbs of a role as people write them.
func verbOrder() []string {
	return []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
}

// yaml writes the roles, the ClusterRole first.
func (g *grants) yaml(name string) string {
	var b strings.Builder
	b.WriteString("# What the program needs, from what it was seen to do and what it declares. A path that has not run may need more.\n")
	slices.Sort(g.notes)
	for _, note := range slices.Compact(g.notes) {
		fmt.Fprintf(&b, "# %s\n", note)
	}
	for i, namespace := range slices.Sorted(maps.Keys(g.byScope)) {
		if i > 0 {
			b.WriteString("---\n")
		}
		kind := "Role"
		if namespace == "" {
			kind = "ClusterRole"
		}
		fmt.Fprintf(&b, "apiVersion: rbac.authorization.k8s.io/v1\nkind: %s\nmetadata:\n", kind)
		if namespace != "" {
			fmt.Fprintf(&b, "  namespace: %q\n", namespace)
		}
		fmt.Fprintf(&b, "  name: %q\nrules:\n", name)
		for _, r := range rulesOf(g.byScope[namespace]) {
			r.yaml(&b)
		}
	}
	return b.String()
}

// rule is all that is granted for one resource, or for objects of some names.
type rule []grant

// rulesOf joins what concerns the same resource and names, sorted.
func rulesOf(all []grant) []rule {
	order := verbOrder()
	slices.SortFunc(all, func(a, b grant) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource), slices.Compare(a.names, b.names),
			cmp.Compare(slices.Index(order, a.Verb), slices.Index(order, b.Verb)))
	})
	var rules []rule
	for _, g := range all {
		if last := len(rules) - 1; last >= 0 && rules[last].takes(g) {
			rules[last] = append(rules[last], g)
		} else {
			rules = append(rules, rule{g})
		}
	}
	return rules
}

func (r rule) takes(g grant) bool {
	return r[0].Group == g.Group && r[0].Resource == g.Resource && slices.Equal(r[0].names, g.names)
}

func (r rule) yaml(b *strings.Builder) {
	var verbs []string
	unseen := map[string][]string{} // by what declares them
	for _, g := range r {
		verbs = append(verbs, g.Verb)
		if g.seen == 0 {
			unseen[g.declared] = append(unseen[g.declared], g.Verb)
		}
		if g.refused > 0 {
			fmt.Fprintf(b, "# Refused %d times: %s.\n", g.refused, g.Verb)
		}
	}
	for _, by := range slices.Sorted(maps.Keys(unseen)) {
		fmt.Fprintf(b, "# Not seen yet: %s (%s).\n", strings.Join(unseen[by], ", "), by)
	}
	if left := r.likely(verbs); len(left) > 0 {
		fmt.Fprintf(b, "# Not seen, and left out: %s.\n", strings.Join(left, ", "))
	}
	fmt.Fprintf(b, "- apiGroups: [%q]\n  resources: [%q]\n", r[0].Group, r[0].Resource)
	if len(r[0].names) > 0 {
		fmt.Fprintf(b, "  resourceNames: [%s]\n", quotedList(r[0].names))
	}
	fmt.Fprintf(b, "  verbs: [%s]\n", quotedList(verbs))
}

// likely returns verbs that were not seen although others make them likely: who
// creates objects may change and delete them on a path that has not run.
func (r rule) likely(verbs []string) []string {
	created := slices.ContainsFunc(r, func(g grant) bool { return g.Verb == "create" && g.seen > 0 })
	watched := slices.Contains(verbs, "watch")
	if !created || !watched {
		return nil
	}
	var left []string
	if !slices.Contains(verbs, "update") && !slices.Contains(verbs, "patch") {
		left = append(left, "patch")
	}
	if !slices.Contains(verbs, "delete") {
		left = append(left, "delete")
	}
	return left
}

func quotedList(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = fmt.Sprintf("%q", word)
	}
	return strings.Join(quoted, ", ")
}
