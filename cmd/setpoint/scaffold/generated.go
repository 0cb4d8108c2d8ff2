package scaffold

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// This file adds to generated files what the generator would add to them.

// addVersion adds the one version of a CustomResourceDefinition to another of the same kind, served and not stored.
func addVersion(definition []byte) func([]byte) ([]byte, error) {
	return func(old []byte) ([]byte, error) {
		var have, more map[string]any
		if err := errors.Join(yaml.Unmarshal(old, &have), yaml.Unmarshal(definition, &more)); err != nil {
			return nil, err
		}
		spec, _ := have["spec"].(map[string]any)
		versions, ok := spec["versions"].([]any)
		if !ok {
			return nil, errors.New("it is not a CustomResourceDefinition with versions: run 'make generate'")
		}
		versions = append(versions, more["spec"].(map[string]any)["versions"].([]any)...)
		spec["versions"] = byName(versions)
		return document(have)
	}
}

// document writes an object as the generator does.
func document(obj any) ([]byte, error) {
	data, err := yaml.Marshal(obj)
	if err != nil {
		return nil, err
	}
	return append([]byte("---\n"), data...), nil
}

// reformat writes a document as the generator does.
func reformat(data []byte) ([]byte, error) {
	var obj map[string]any
	if err := yaml.Unmarshal(data, &obj); err != nil {
		return nil, err
	}
	return document(obj)
}

// addRules adds rules to the ClusterRole that is the first document of a file, and sorts and joins them as the generator does.
func addRules(rules []byte) func([]byte) ([]byte, error) {
	return func(old []byte) ([]byte, error) {
		first, others, _ := bytes.Cut(bytes.TrimPrefix(old, []byte("---\n")), []byte("\n---\n"))
		var role struct {
			APIVersion string              `json:"apiVersion"`
			Kind       string              `json:"kind"`
			Metadata   map[string]any      `json:"metadata"`
			Rules      []rbacv1.PolicyRule `json:"rules"`
		}
		var more []rbacv1.PolicyRule
		if err := errors.Join(yaml.UnmarshalStrict(first, &role), yaml.UnmarshalStrict(rules, &more)); err != nil {
			return nil, err
		}
		if role.Kind != "ClusterRole" {
			return nil, fmt.Errorf("it does not begin with a ClusterRole but with %q: run 'make generate'", role.Kind)
		}
		role.Rules = joinRules(append(role.Rules, more...))
		data, err := document(role)
		if err == nil && len(others) > 0 {
			data = slices.Concat(data, []byte("---\n"), others)
		}
		return data, err
	}
}

// joinRules makes one rule of those that differ in their resources only.
func joinRules(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	key := func(r rbacv1.PolicyRule) string {
		return fmt.Sprint(r.APIGroups, r.ResourceNames, r.NonResourceURLs, r.Verbs)
	}
	var joined []rbacv1.PolicyRule
	for _, rule := range rules {
		slices.Sort(rule.Verbs)
		at := slices.IndexFunc(joined, func(have rbacv1.PolicyRule) bool { return key(have) == key(rule) })
		if at < 0 {
			joined = append(joined, rule)
			continue
		}
		joined[at].Resources = append(joined[at].Resources, rule.Resources...)
	}
	for i := range joined {
		slices.Sort(joined[i].Resources)
		joined[i].Resources = slices.Compact(joined[i].Resources)
	}
	slices.SortStableFunc(joined, func(a, b rbacv1.PolicyRule) int {
		return cmp.Or(slices.Compare(a.APIGroups, b.APIGroups), slices.Compare(a.Resources, b.Resources), slices.Compare(a.Verbs, b.Verbs))
	})
	return joined
}

// addWebhook adds a configuration with one webhook to a file of such: to the configuration of the same kind, if it is there.
func addWebhook(configuration []byte) func([]byte) ([]byte, error) {
	return func(old []byte) ([]byte, error) {
		var more map[string]any
		if err := yaml.Unmarshal(configuration, &more); err != nil {
			return nil, err
		}
		var all []map[string]any
		joined := false
		for _, text := range bytes.Split(append([]byte("\n"), old...), []byte("\n---\n")) {
			var have map[string]any
			if err := yaml.Unmarshal(text, &have); err != nil {
				return nil, err
			}
			if have["kind"] == more["kind"] {
				joined = true
				webhooks, _ := have["webhooks"].([]any)
				have["webhooks"] = byName(append(webhooks, more["webhooks"].([]any)...))
			}
			if have != nil {
				all = append(all, have)
			}
		}
		if !joined {
			all = append(all, more)
		}
		slices.SortStableFunc(all, func(a, b map[string]any) int { return strings.Compare(fmt.Sprint(a["kind"]), fmt.Sprint(b["kind"])) })
		var out []byte
		for _, obj := range all {
			data, err := document(obj)
			if err != nil {
				return nil, err
			}
			out = append(out, data...)
		}
		return out, nil
	}
}

// byName sorts a list of objects by their names.
func byName(list []any) []any {
	name := func(item any) string {
		object, _ := item.(map[string]any)
		name, _ := object["name"].(string)
		return name
	}
	slices.SortStableFunc(list, func(a, b any) int { return strings.Compare(name(a), name(b)) })
	return list
}

const metaPackage = "k8s.io/apimachinery/pkg/apis/meta/v1"

// addDeepCopies adds the deep copies of a kind's types to a file of such, in the order of the types' names.
func addDeepCopies(d kindData) func([]byte) ([]byte, error) {
	return func(old []byte) ([]byte, error) {
		meta, err := importName(old, metaPackage)
		if err != nil {
			return nil, err
		}
		more := render("kind/deepcopy.go.tmpl", struct {
			kindData
			Meta string
		}{d, meta})
		have, head, err := functions(old)
		if err != nil {
			return nil, err
		}
		added, _, err := functions(append([]byte("package p\n\n"), more...))
		if err != nil {
			return nil, err
		}
		all := append(have, added...)
		slices.SortStableFunc(all, func(a, b function) int { return strings.Compare(a.receiver, b.receiver) })
		out := []byte(strings.TrimRight(head, "\n") + "\n")
		for _, f := range all {
			out = append(out, "\n"+f.text+"\n"...)
		}
		return out, nil
	}
}

// importName returns what a Go file calls a package that it imports.
func importName(source []byte, path string) (string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.ImportsOnly)
	if err != nil {
		return "", err
	}
	for _, i := range file.Imports {
		if i.Path.Value == `"`+path+`"` {
			if i.Name != nil {
				return i.Name.Name, nil
			}
			return path[strings.LastIndex(path, "/")+1:], nil
		}
	}
	return "", fmt.Errorf("it does not import %s, as the generator's files do: run 'make generate' and try again", path)
}

// function is a method with its comment, as it stands in a file.
type function struct{ receiver, text string }

// functions divides a file of nothing but imports and methods.
func functions(source []byte) (all []function, head string, err error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", source, parser.ParseComments)
	if err != nil {
		return nil, "", err
	}
	head = string(source)
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		begin, end := f.Pos(), f.End()
		if f.Doc != nil {
			begin = f.Doc.Pos()
		}
		from, to := fset.Position(begin).Offset, fset.Position(end).Offset
		if len(all) == 0 {
			head = string(source[:from])
		}
		all = append(all, function{receiver(f), string(source[from:to])})
	}
	return all, head, nil
}

// receiver returns the name of a method's type.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) != 1 {
		return ""
	}
	t := f.Recv.List[0].Type
	if pointer, ok := t.(*ast.StarExpr); ok {
		t = pointer.X
	}
	if name, ok := t.(*ast.Ident); ok {
		return name.Name
	}
	return ""
}
