package scaffold

import (
	"bytes"
	"fmt"
	"go/format"
	"strings"
)

// scaffoldMark begins the comments that mark where lines are inserted.
const scaffoldMark = "+setpoint:scaffold:"

// insert inserts lines before the comment that marks the place of that name, as deep as it is indented. Lines that are in the file
// already are left as they are.
func insert(place string, lines ...string) func([]byte) ([]byte, error) {
	return func(old []byte) ([]byte, error) {
		text := string(old)
		if contains(text, lines) {
			return old, nil
		}
		var out strings.Builder
		found := false
		for line := range strings.Lines(text) {
			if indent, isMark := markIndent(line, place); isMark && !found {
				found = true
				for _, l := range lines {
					out.WriteString(strings.TrimRight(indent+l, " \t") + "\n")
				}
			}
			out.WriteString(line)
		}
		if !found {
			return nil, fmt.Errorf("the comment %q is gone: put it back on a line of its own, where this belongs:\n    %s",
				scaffoldMark+place, strings.Join(lines, "\n    "))
		}
		return []byte(out.String()), nil
	}
}

// contains reports whether lines follow each other in a text, however they are indented.
func contains(text string, lines []string) bool {
	matched := 0
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) != strings.TrimSpace(lines[matched]) {
			matched = 0
			continue
		}
		if matched++; matched == len(lines) {
			return true
		}
	}
	return false
}

// markIndent reports whether a line is the comment that marks a place, and how it is indented.
func markIndent(line, place string) (indent string, isMark bool) {
	rest := strings.TrimLeft(line, " \t")
	indent = line[:len(line)-len(rest)]
	rest = strings.TrimLeft(rest, "/# ")
	return indent, strings.TrimSpace(rest) == scaffoldMark+place
}

// formatGo puts Go source in gofmt's form.
func formatGo(source []byte) ([]byte, error) {
	formatted, err := format.Source(source)
	if err != nil {
		return nil, fmt.Errorf("it is not Go that can be formatted: %w", err)
	}
	return bytes.TrimLeft(formatted, "\n"), nil
}
