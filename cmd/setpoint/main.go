// Command setpoint runs a Kubernetes control plane with Setpoint's operators in one process, and the tools around it.
//
//	setpoint up          start a plane, apply what is given, run until interrupted
//	setpoint kubectl …   upstream's kubectl, by default against the plane started last
//	setpoint why …       the story of one object: its reconciles, why, what they wrote, when it runs next
//	setpoint rbac        the roles that running managers need
//	setpoint run …       run shipped operators on any cluster
//	setpoint manifests … print what installs a shipped operator
//	setpoint new …       make an operator project, and add kinds and webhooks to it
//	setpoint version     the versions of Setpoint, Kubernetes and Go
//
// The exit code is 0 when done, 1 when something failed, and 2 when the command was called in a way it does not
// understand; kubectl's codes are its own. Results go to the standard output; errors and, with --verbose, logs go to the standard error.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/cmd/setpoint/internal/operate"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}))
}

// streams are where a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// misuse is an error of whoever typed the command.
type misuse struct{ error }

func (m misuse) Unwrap() error { return m.error }

// exitCode is an error of a command that has reported everything itself and only wants to end with that code.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// run executes one command line and returns its exit code.
func run(ctx context.Context, args []string, s streams) int {
	root := newRoot(s)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	var code exitCode
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, new(misuse)) || errors.As(err, new(operate.Misuse)):
		fmt.Fprintf(s.err, "error: %v\nRun '%s --help' for what it understands.\n", err, cmd.CommandPath())
		return 2
	default:
		fmt.Fprintf(s.err, "error: %v\n", err)
		return 1
	}
}

// newRoot builds the command tree.
func newRoot(s streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "setpoint",
		Short: "A Kubernetes control plane and operators in one process",
		Long: "setpoint runs a whole Kubernetes control plane in one process, with operators that are ready to use.\n\n" +
			"Start with 'setpoint up', then talk to it with 'setpoint kubectl' or any kubectl.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          known,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SuggestionsMinimumDistance = 2
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return misuse{err} })
	root.AddCommand(newUp(s), newKubectl(s), newWhy(s), newRBAC(s), newNew(s), newVersion(s))
	root.AddCommand(operate.Commands(s.out, s.err)...)
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		if c.Name() == "help" {
			c.Args = known
		}
	}
	return root
}

// known refuses arguments that do not begin with the name of a command.
func known(cmd *cobra.Command, args []string) error {
	root := cmd.Root()
	if found, _, err := root.Find(args); len(args) == 0 || err == nil && found != root {
		return nil
	}
	err := fmt.Errorf("unknown command %q", args[0])
	if near := root.SuggestionsFor(args[0]); len(near) > 0 {
		err = fmt.Errorf("%w; did you mean %q?", err, near[0])
	}
	return misuse{err}
}

// noArgs refuses arguments that are no flags.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return misuse{fmt.Errorf("%q takes no argument, but was given %q", cmd.CommandPath(), args[0])}
	}
	return nil
}
