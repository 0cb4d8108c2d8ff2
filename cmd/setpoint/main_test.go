package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// asCommand in the environment makes the test binary be the command itself.
const asCommand = "SETPOINT_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		os.Exit(run(context.Background(), os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}))
	}
	os.Exit(m.Run())
}

// command runs one command line in a process of its own, as a user does (kubectl sets up what a plane in the same process
// uses, too), and returns what it printed and its exit code.
func command(t *testing.T, args ...string) (out, errOut string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), asCommand+"=yes")
	cmd.Stdout, cmd.Stderr = &o, &e
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return o.String(), e.String(), cmd.ProcessState.ExitCode()
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
		{line: "help up", out: "setpoint up [flags]"},
		{line: "help new api", out: "setpoint new api [flags]"},
		{line: "help ip", code: 2, err: `unknown command "ip"; did you mean "up"?`},
		{line: "version now", code: 2, err: `takes no argument, but was given "now"`},
		{line: "up --no-such-flag", code: 2, err: "Run 'setpoint up --help'"},
		{line: "up --nodes many", code: 2, err: "--nodes"},
		{line: "up --listen 6443 --nodes 0 --node real --operators foo,bar", code: 2, err: `there is no operator "bar"; there are expose, foo, memcached, reload, replicaset`},
		{line: "up --operators foo --expose-tls", code: 2, err: "--expose-tls is an option of the operator expose, which is not run"},
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
