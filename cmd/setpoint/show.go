package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// framePause is the least time between two pictures of what is becoming ready.
const framePause = 50 * time.Millisecond

// screen is where progress is shown.
type screen interface {
	// step says what is being done until the next call; nothing, when that is empty.
	step(what string)
	// show shows how far objects are, replacing what was shown before as far as the screen can.
	show(rows []row)
}

// newScreen returns a screen that redraws if out is a terminal, and else one that adds lines.
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
	return &journal{out: out, said: map[string]readiness{}}
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

// terminal redraws in place.
type terminal struct {
	out   io.Writer
	size  func() (width, height int)
	drawn []string // the lines that the next picture replaces
}

func (t *terminal) step(what string) {
	if what == "" {
		t.draw(nil)
		return
	}
	t.draw([]string{"  … " + what})
}

func (t *terminal) show(rows []row) {
	width, height := t.size()
	lines := table(rows)
	if limit := max(height-2, 1); len(lines) > limit {
		lines = append(lines[:limit-1], fmt.Sprintf("  … and %d lines more", len(lines)-limit+1))
	}
	for i, line := range lines {
		lines[i] = cut(line, width)
	}
	t.draw(lines)
}

// draw replaces the last picture.
func (t *terminal) draw(lines []string) {
	if slices.Equal(lines, t.drawn) {
		return
	}
	var b strings.Builder
	if len(t.drawn) > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\x1b[J", len(t.drawn)) // up to the first line, clear from there
	}
	for _, line := range lines {
		b.WriteString(line + "\n")
	}
	t.drawn = lines
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

// journal writes a line for every step, and whenever an object's readiness changes.
type journal struct {
	out  io.Writer
	said map[string]readiness
}

func (j *journal) step(what string) {
	if what != "" {
		fmt.Fprintln(j.out, what)
	}
}

func (j *journal) show(rows []row) {
	for _, r := range rows {
		key := r.kind + " " + r.name
		if said, ok := j.said[key]; ok && said == r.readiness {
			continue
		}
		j.said[key] = r.readiness
		state := "waiting"
		if r.ready {
			state = "ready"
		}
		fmt.Fprintf(j.out, "%-8s%s: %s\n", state, key, r.text)
	}
}
