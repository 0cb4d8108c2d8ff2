package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// A script is a file of sessions of kubectl and of this command, run in order:
//
//	# a remark
//	$ kubectl get foos         must succeed
//	$ setpoint why foo/hello   likewise
//	! kubectl get bars         must fail
//	out: regular expression    must match the standard output of the command above
//	err: regular expression    must match its standard error
//	not: regular expression    must match neither
//
// Words are divided by spaces and may stand in single quotes.

// step is one command of a script and what is expected of it.
type step struct {
	where        string
	args         []string
	fails        bool
	expectations []expectation
}

type expectation struct {
	stream string // out, err or not
	match  *regexp.Regexp
}

func readScript(t *testing.T, path string) []step {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var steps []step
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		where := fmt.Sprintf("%s:%d", path, n)
		kind, rest, _ := strings.Cut(lines.Text(), " ")
		switch kind {
		case "", "#":
		case "$", "!":
			words := split(rest)
			switch words[0] {
			case "kubectl":
			case "setpoint":
				words = words[1:]
			default:
				t.Fatalf("%s: %q is neither kubectl nor setpoint", where, words[0])
			}
			steps = append(steps, step{where: where, args: words, fails: kind == "!"})
		case "out:", "err:", "not:":
			match, err := regexp.Compile("(?m)" + rest)
			if err != nil || len(steps) == 0 {
				t.Fatalf("%s: no command before it, or %v", where, err)
			}
			last := &steps[len(steps)-1]
			last.expectations = append(last.expectations, expectation{strings.TrimSuffix(kind, ":"), match})
		default:
			t.Fatalf("%s: not understood: %s", where, lines.Text())
		}
	}
	return steps
}

// split divides a line into words as the shell does with single quotes.
func split(line string) (words []string) {
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			words[len(words)-1] += part
			continue
		}
		fields := strings.Fields(part)
		if i > 0 && !strings.HasPrefix(part, " ") && len(fields) > 0 {
			words[len(words)-1] += fields[0]
			fields = fields[1:]
		}
		words = append(words, fields...)
		if strings.HasSuffix(part, " ") {
			words = append(words, "")
		}
	}
	if last := len(words) - 1; last >= 0 && words[last] == "" && !strings.HasSuffix(line, "''") {
		words = words[:last]
	}
	return words
}

// runScript runs a script, stopping at the first step that does not do what it should: later ones build on it.
func runScript(t *testing.T, path string) {
	t.Helper()
	for _, s := range readScript(t, path) {
		out, errOut, code := command(t, s.args...)
		wrong := ""
		if (code != 0) != s.fails {
			wrong = fmt.Sprintf("exit code %d", code)
		}
		for _, e := range s.expectations {
			switch matched := map[string]bool{"out": e.match.MatchString(out), "err": e.match.MatchString(errOut),
				"not": !e.match.MatchString(out + errOut)}[e.stream]; {
			case !matched:
				wrong += fmt.Sprintf("\n%s: does not hold: %s", e.stream, e.match)
			}
		}
		if wrong != "" {
			t.Fatalf("%s: %s: %s\nstandard output:\n%s\nstandard error:\n%s", s.where, strings.Join(s.args, " "), wrong, out, errOut)
		}
	}
}

func TestSplit(t *testing.T) {
	for line, want := range map[string]string{
		"a b":               "a|b",
		"a 'b c' d":         "a|b c|d",
		"a -p='{\"b\": 1}'": `a|-p={"b": 1}`,
		"a --x='1 2'3 b":    "a|--x=1 23|b",
	} {
		if got := strings.Join(split(line), "|"); got != want {
			t.Errorf("%s: got %s, want %s", line, got, want)
		}
	}
}
