package expose

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"text/template"
	"text/template/parse"

	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	defaultTemplate = "{{.Service}}.{{.Namespace}}.{{.Domain}}"
	// longest is the greatest length, in bytes, of a template and of what comes out. A host has at most 253.
	longest = 1000
)

// hostParts is what a template of a host is given.
type hostParts struct {
	Service, Namespace, Domain, Name string
	Labels                           map[string]string
}

// render fills in the template of a host and checks what comes out. Templates are written by whoever may annotate a Service,
// so they may take neither long nor much: they have no loops, and no function of theirs makes long strings.
func render(text string, parts hostParts) (string, error) {
	parsed, err := parseTemplate(text)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	if err := parsed.Execute(&out, parts); err != nil {
		return "", err
	}
	host := strings.ToLower(strings.TrimSpace(out.String()))
	if err := checkHost(host); err != nil {
		return "", fmt.Errorf("%.300q, which comes of the template %q: %w", host, text, err)
	}
	return host, nil
}

func parseTemplate(text string) (*template.Template, error) {
	if len(text) > longest {
		return nil, fmt.Errorf("the template is longer than %d bytes", longest)
	}
	parsed, err := template.New("host").Option("missingkey=error").Funcs(template.FuncMap{
		"print":   func(args ...any) (string, error) { return bounded(fmt.Sprint(args...)) },
		"println": func(args ...any) (string, error) { return bounded(fmt.Sprintln(args...)) },
		"printf":  printf,
	}).Parse(text)
	if err == nil {
		err = checkNodes(parsed.Root)
	}
	return parsed, err
}

// checkNodes refuses what can repeat itself.
func checkNodes(list *parse.ListNode) error {
	if list == nil {
		return nil
	}
	var errs []error
	for _, node := range list.Nodes {
		switch n := node.(type) {
		case *parse.IfNode:
			errs = append(errs, checkNodes(n.List), checkNodes(n.ElseList))
		case *parse.WithNode:
			errs = append(errs, checkNodes(n.List), checkNodes(n.ElseList))
		case *parse.RangeNode, *parse.TemplateNode:
			errs = append(errs, fmt.Errorf("%s: the template of a host has no range and no template", n))
		}
	}
	return errors.Join(errs...)
}

func bounded(s string) (string, error) {
	if len(s) > longest {
		return "", fmt.Errorf("the result is longer than %d bytes", longest)
	}
	return s, nil
}

// wide finds formats that pad to a great width, or to one that an argument says.
var wide = regexp.MustCompile(`[0-9]{3}|\*`)

func printf(format string, args ...any) (string, error) {
	if wide.MatchString(format) {
		return "", fmt.Errorf("the format %q is too wide", format)
	}
	return bounded(fmt.Sprintf(format, args...))
}

func checkHost(host string) error {
	wrong := validation.IsDNS1123Subdomain(host)
	if strings.HasPrefix(host, "*.") {
		wrong = validation.IsWildcardDNS1123Subdomain(host)
	}
	if len(wrong) > 0 {
		return fmt.Errorf("it is no host name: %s", strings.Join(wrong, "; "))
	}
	return nil
}
