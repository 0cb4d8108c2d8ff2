package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// framePause is the least time between two pictures of what is becoming ready.
const framePause = 50 * time.Millisecond

// screen is where convergence is shown.
type screen interface {
	// show replaces what was shown before, in whatever way the screen can.
	show(rows []row)
}

// newScreen returns a screen that redraws on a terminal, and one that adds lines elsewhere.
func newScreen(out io.Writer) screen {
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return &terminal{out: out, size: func() (int, int) {
			width, height, err := term.GetSize(int(f.Fd()))
			if err != nil || width <= 0 || height <= 0 {
				return 80, 24
			}
			return width, height
		}}
	}
	return &journal{out: out, said: map[string]row{}}
}

// converge shows what the tracker sees until all that was applied is ready, or ctx ends.
func converge(ctx context.Context, t *tracker, s screen) error {
	for {
		rows, ready := t.view()
		s.show(rows)
		if ready {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(framePause):
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.changed:
		}
	}
}

// terminal redraws a table in place.
type terminal struct {
	out   io.Writer
	size  func() (width, height int)
	drawn int // lines of the last table
}

func (t *terminal) show(rows []row) {
	width, height := t.size()
	lines := table(rows)
	if limit := max(height-2, 1); len(lines) > limit {
		lines = append(lines[:limit-1], fmt.Sprintf("  … and %d lines more", len(lines)-limit+1))
	}
	var b strings.Builder
	if t.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\x1b[J", t.drawn) // up to the first line, clear from there
	}
	for _, line := range lines {
		b.WriteString(cut(line, width) + "\n")
	}
	t.drawn = len(lines)
	io.WriteString(t.out, b.String())
}

// table sets rows in columns, each object indented below its owner.
func table(rows []row) []string {
	labels := make([]string, len(rows))
	width := 0
	for i, r := range rows {
		labels[i] = strings.Repeat("  ", r.depth) + r.kind + " " + r.name
		width = max(width, utf8.RuneCountInString(labels[i]))
	}
	lines := make([]string, len(rows))
	for i, r := range rows {
		mark := "…"
		if r.ready {
			mark = "✓"
		}
		padding := strings.Repeat(" ", width-utf8.RuneCountInString(labels[i]))
		lines[i] = "  " + mark + " " + labels[i] + padding + "  " + r.text
	}
	return lines
}

// cut shortens a line to width characters.
func cut(line string, width int) string {
	if runes := []rune(line); len(runes) > width {
		return string(runes[:width-1]) + "…"
	}
	return line
}

// journal writes a line whenever an object's readiness changes.
type journal struct {
	out  io.Writer
	said map[string]row
}

func (j *journal) show(rows []row) {
	for _, r := range rows {
		key := r.kind + " " + r.name
		if said, ok := j.said[key]; ok && said.readiness == r.readiness {
			continue
		}
		j.said[key] = r
		state := "waiting"
		if r.ready {
			state = "ready"
		}
		fmt.Fprintf(j.out, "%-8s%s: %s\n", state, key, r.text)
	}
}
