package main

import (
	"bytes"
	"strings"
	"testing"
)

// command runs one command line and returns what it printed and its exit code.
func command(t *testing.T, args ...string) (out, errOut string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(t.Context(), args, streams{in: strings.NewReader(""), out: &o, err: &e})
	return o.String(), e.String(), code
}

func TestCommandLine(t *testing.T) {
	home(t)
	for _, test := range []struct {
		line string
		code int
		out  string // part of the standard output
		err  string // part of the standard error
	}{
		{line: "", out: "setpoint up"},
		{line: "--help", out: "Usage:"},
		{line: "version", out: "kubernetes v1.37."},
		{line: "up --help", out: "--kubeconfig file"},
		{line: "completion bash", out: "__start_setpoint"},
		{line: "ip", code: 2, err: `unknown command "ip"; did you mean "up"?`},
		{line: "version now", code: 2, err: `takes no argument, but was given "now"`},
		{line: "up --no-such-flag", code: 2, err: "Run 'setpoint up --help'"},
		{line: "up --nodes many", code: 2, err: "--nodes"},
		{line: "up --listen 6443 --nodes 0 --node real --operators foo,bar", code: 2, err: `there is no operator "bar"; there are foo`},
		{line: "up -f no/such/file", code: 1, err: "no/such/file"},
		{line: "kubectl get pods", code: 1, err: "no plane is running; start one with 'setpoint up'"},
		{line: "kubectl --help", out: "kubectl controls"},
		{line: "kubectl get pods --kubeconfig no/such/file", code: 1, err: "no/such/file"},
		{line: "kubectl bogus --kubeconfig no/such/file", code: 1, err: "unknown command"},
		{line: "__complete up --operators ", out: "foo"},
		{line: "__complete kubectl ge", out: "get\t"},
	} {
		args := strings.Fields(test.line)
		if strings.HasSuffix(test.line, " ") {
			args = append(args, "") // the word to complete
		}
		out, errOut, code := command(t, args...)
		if code != test.code || !strings.Contains(out, test.out) || !strings.Contains(errOut, test.err) {
			t.Errorf("setpoint %s: exit code %d, want %d\noutput, to contain %q:\n%s\nerrors, to contain %q:\n%s",
				test.line, code, test.code, test.out, out, test.err, errOut)
		}
	}
}
