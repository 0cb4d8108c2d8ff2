package scaffold

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"golang.org/x/mod/module"
	"k8s.io/apimachinery/pkg/util/validation"
)

var (
	kindForm    = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)
	versionForm = regexp.MustCompile(`^v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?$`)
)

// maxName leaves room in 63 characters for what is appended to a project's name.
const maxName = 45

// reserved are the identifiers of an API package that are no kinds.
var reserved = map[string]bool{"GroupVersion": true, "AddToScheme": true, "ConditionReady": true,
	"ReasonAvailable": true, "ReasonProgressing": true, "ReasonNameTaken": true, "ReasonRejected": true}

// check returns all that is wrong with what a project is called.
func (p *Project) check() error {
	var errs []error
	if problems := validation.IsDNS1123Label(p.Name); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("--project-name: %q is not a DNS label such as my-operator: %s", p.Name, strings.Join(problems, "; ")))
	} else if len(p.Name) > maxName {
		errs = append(errs, fmt.Errorf("--project-name: %q is longer than %d characters", p.Name, maxName))
	}
	if problems := validation.IsDNS1123Subdomain(p.Domain); len(problems) > 0 || !strings.Contains(p.Domain, ".") {
		errs = append(errs, fmt.Errorf("--domain: %q is not a DNS name with a dot, such as example.com", p.Domain))
	}
	if err := module.CheckImportPath(p.Repo); err != nil {
		errs = append(errs, fmt.Errorf("--repo: %q is not the path of a Go module such as example.com/my-operator: %w", p.Repo, err))
	}
	return errors.Join(errs...)
}

// checkResource returns all that is wrong with what a kind is called.
func (p *Project) checkResource(r Resource) error {
	var errs []error
	lower := strings.ToLower(r.Kind)
	switch problems := validation.IsDNS1035Label(lower); {
	case !kindForm.MatchString(r.Kind):
		errs = append(errs, fmt.Errorf("--kind: %q is not a Go name that begins with a capital letter, such as Website", r.Kind))
	case len(problems) > 0:
		errs = append(errs, fmt.Errorf("--kind: %q does not make a resource's name: %s", r.Kind, strings.Join(problems, "; ")))
	case reserved[r.Kind]:
		errs = append(errs, fmt.Errorf("--kind: %s is a name of the package of the types: choose another", r.Kind))
	}
	if problems := validation.IsDNS1035Label(r.Plural); len(problems) > 0 && len(errs) == 0 {
		errs = append(errs, fmt.Errorf("--plural: %q is not a name of a resource such as websites: %s", r.Plural, strings.Join(problems, "; ")))
	}
	if !versionForm.MatchString(r.Version) {
		errs = append(errs, fmt.Errorf("--version: %q is not a version such as v1, v1beta2 or v1alpha1", r.Version))
	}
	full := p.FullGroup(r)
	switch problems := validation.IsDNS1123Subdomain(full); {
	case len(problems) > 0:
		errs = append(errs, fmt.Errorf("--group: %q is not a DNS name: %s", full, strings.Join(problems, "; ")))
	case full == "k8s.io" || strings.HasSuffix(full, ".k8s.io") || full == "kubernetes.io" || strings.HasSuffix(full, ".kubernetes.io"):
		errs = append(errs, fmt.Errorf("--domain: %q is for Kubernetes itself: API servers refuse CustomResourceDefinitions of it without an approval", full))
	}
	return errors.Join(append(errs, p.clashes(r)...)...)
}

// clashes returns what r shares with other kinds and must not.
func (p *Project) clashes(r Resource) (errs []error) {
	for _, have := range p.Resources {
		sameKind := have.Kind == r.Kind && have.Group == r.Group
		switch {
		case sameKind && have.Version == r.Version:
			errs = append(errs, fmt.Errorf("%s/%s has a kind %s already, in %s", p.FullGroup(r), r.Version, r.Kind, p.folder(have)))
		case sameKind && (have.Plural != r.Plural || have.Namespaced != r.Namespaced):
			errs = append(errs, fmt.Errorf("%s/%s of %s has the plural %s and namespaced=%t: all versions of a kind have the same",
				p.FullGroup(have), have.Version, have.Kind, have.Plural, have.Namespaced))
		case sameKind:
		case strings.EqualFold(have.Kind, r.Kind):
			errs = append(errs, fmt.Errorf("the project has a kind %s in the group %s: the kinds of one project differ by more than group or capitals", have.Kind, p.FullGroup(have)))
		case p.folder(have) == p.folder(r) && identifiers(have.Kind, r.Kind):
			errs = append(errs, fmt.Errorf("--kind: %s and %s, of one package, would make the same Go name: choose another", r.Kind, have.Kind))
		case p.folder(have) != p.folder(r) && p.alias(have) == p.alias(r):
			errs = append(errs, fmt.Errorf("--group: Go names of %s would be those of %s: choose another", p.FullGroup(r), p.FullGroup(have)))
		case have.Group == r.Group && have.Plural == r.Plural:
			errs = append(errs, fmt.Errorf("--plural: %s is that of the kind %s", r.Plural, have.Kind))
		}
	}
	return errs
}

// identifiers reports whether the Go types of two kinds share a name.
func identifiers(a, b string) bool {
	for _, suffix := range []string{"List", "Spec", "Status"} {
		if a+suffix == b || b+suffix == a {
			return true
		}
	}
	return false
}

// plural guesses the plural of a kind in small letters, as English mostly has it.
func plural(kind string) string {
	lower := strings.ToLower(kind)
	switch {
	case lower == "":
		return ""
	case strings.HasSuffix(lower, "y") && !strings.ContainsAny(lower[max(len(lower)-2, 0):len(lower)-1], "aeiou"):
		return lower[:len(lower)-1] + "ies"
	case strings.HasSuffix(lower, "s"), strings.HasSuffix(lower, "x"), strings.HasSuffix(lower, "z"),
		strings.HasSuffix(lower, "ch"), strings.HasSuffix(lower, "sh"):
		return lower + "es"
	default:
		return lower + "s"
	}
}

// KindOf makes a kind's name of a project's: my-shop becomes MyShop.
func KindOf(name string) string {
	var out strings.Builder
	up := true
	for _, r := range name {
		if r == '-' || r == '.' || r == '_' {
			up = true
			continue
		}
		if up {
			r = unicode.ToUpper(r)
		}
		up = false
		out.WriteRune(r)
	}
	return out.String()
}

// NameOf makes a project's name of a folder's.
func NameOf(folder string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return unicode.ToLower(r)
		default:
			return '-'
		}
	}, folder)
	return strings.Trim(name, "-")
}

// lowerFirst makes the beginning of unexported Go names of an exported one.
func lowerFirst(kind string) string { return strings.ToLower(kind[:1]) + kind[1:] }

// alias is what imports call the package of a resource's types.
func (p *Project) alias(r Resource) string {
	group, _, _ := strings.Cut(p.FullGroup(r), ".")
	name := strings.ReplaceAll(group, "-", "") + r.Version
	if name == "appsv1" || name == "corev1" || name == "metav1" || name[0] >= '0' && name[0] <= '9' {
		return "api" + name
	}
	return name
}
