package reload

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// patterns are names and regular expressions, one of which a name has to be or to match as a whole. The zero value
// matches nothing.
type patterns struct {
	names       []string
	expressions []*regexp.Regexp
}

// match reports whether one of them is or matches name.
func (p patterns) match(name string) bool {
	for _, n := range p.names {
		if n == name {
			return true
		}
	}
	for _, e := range p.expressions {
		if e.MatchString(name) {
			return true
		}
	}
	return false
}

// parsePatterns reads a list that is separated by commas. An item that is a possible name is that name; any other is a
// regular expression. What is neither is left out and returned as an error each, so that the others still count.
func parsePatterns(list string) (p patterns, errs []error) {
	for _, item := range splitList(list) {
		if len(validation.IsDNS1123Subdomain(item)) == 0 {
			p.names = append(p.names, item)
			continue
		}
		e, err := regexp.Compile("^(?:" + item + ")$")
		if err != nil {
			errs = append(errs, fmt.Errorf("%q is neither a name nor a regular expression: %w", item, err))
			continue
		}
		p.expressions = append(p.expressions, e)
	}
	return p, errs
}

// parseNames reads a list of names only.
func parseNames(list string) (p patterns, errs []error) {
	for _, item := range splitList(list) {
		if bad := validation.IsDNS1123Subdomain(item); len(bad) > 0 {
			errs = append(errs, fmt.Errorf("%q is not a name: %s", item, bad[0]))
			continue
		}
		p.names = append(p.names, item)
	}
	return p, errs
}

// splitList splits at commas, but not at that of a repetition in a regular expression: "app-[ab]{1,2}, db". Spaces around
// items and empty items are dropped.
func splitList(list string) (items []string) {
	add := func(item string) {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	start := 0
	for i, c := range list {
		if c == ',' && !repeats(list[:i], list[i+1:]) {
			add(list[start:i])
			start = i + 1
		}
	}
	add(list[start:])
	return items
}

// repeats reports whether a comma between the two texts is that of a repetition.
func repeats(before, after string) bool {
	const digits = "0123456789"
	return strings.HasSuffix(strings.TrimRight(before, digits), "{") && strings.HasPrefix(strings.TrimLeft(after, digits), "}")
}
