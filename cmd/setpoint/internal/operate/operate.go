// Package operate holds the commands that run Setpoint's shipped operators on any cluster: run, manifests and cleanup.
// They link no API server, so that a program with nothing else stays small: the image's.
//
// Results go to the standard output, logs to the standard error. A mistake of whoever typed a command is a Misuse.
package operate

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/setpoint-dev/setpoint/operators/catalog"
)

// Misuse is an error of whoever typed the command.
type Misuse struct{ error }

// Unwrap returns the error itself.
func (m Misuse) Unwrap() error { return m.error }

// Commands returns the commands, which write to out and errOut.
func Commands(out, errOut io.Writer) []*cobra.Command {
	return []*cobra.Command{newRun(errOut), newManifests(out), newCleanup()}
}

// Choose returns the operators of these names.
func Choose(operators []catalog.Operator, names []string) ([]catalog.Operator, error) {
	known := make([]string, len(operators))
	var chosen []catalog.Operator
	for i, o := range operators {
		known[i] = o.Name
		if slices.Contains(names, o.Name) {
			chosen = append(chosen, o)
		}
	}
	var errs []error
	for i, n := range names {
		switch {
		case !slices.Contains(known, n):
			errs = append(errs, fmt.Errorf("there is no operator %q; there are %s", n, strings.Join(known, ", ")))
		case slices.Contains(names[:i], n):
			errs = append(errs, fmt.Errorf("the operator %s is named twice", n))
		}
	}
	return chosen, errors.Join(errs...)
}

// someOf accepts names of operators as arguments.
func someOf(operators []catalog.Operator) cobra.PositionalArgs {
	return func(_ *cobra.Command, names []string) error {
		_, err := Choose(operators, names)
		if len(names) == 0 {
			err = errors.New("name the operators to run")
		}
		if err != nil {
			return Misuse{err}
		}
		return nil
	}
}

// oneOf accepts the name of one operator.
func oneOf(operators []catalog.Operator) cobra.PositionalArgs {
	return func(_ *cobra.Command, names []string) error {
		_, err := Choose(operators, names)
		if len(names) != 1 {
			err = errors.New("name one operator")
		}
		if err != nil {
			return Misuse{err}
		}
		return nil
	}
}

// AddFlags gives a command the options of operators.
func AddFlags(to *pflag.FlagSet, operators []catalog.Operator) {
	all := flag.NewFlagSet("operators", flag.ContinueOnError)
	for _, o := range operators {
		o.AddFlags(all)
	}
	to.AddGoFlagSet(all)
}

// Strangers returns an error for each option that was set and is of an operator that was not chosen.
func Strangers(flags *pflag.FlagSet, operators, chosen []catalog.Operator) error {
	var errs []error
	flags.Visit(func(f *pflag.Flag) {
		of := ownerOf(f.Name, operators)
		if of != "" && !slices.ContainsFunc(chosen, func(o catalog.Operator) bool { return o.Name == of }) {
			errs = append(errs, fmt.Errorf("--%s is an option of the operator %s, which is not run", f.Name, of))
		}
	})
	return errors.Join(errs...)
}

// ownerOf returns the name of the operator that has a flag, with whose name it begins, or nothing.
func ownerOf(flagName string, operators []catalog.Operator) string {
	for _, o := range operators {
		if strings.HasPrefix(flagName, o.Name+"-") {
			return o.Name
		}
	}
	return ""
}

// completeNames offers the operators' names to the shell.
func completeNames(operators []catalog.Operator) cobra.CompletionFunc {
	names := make([]string, len(operators))
	for i, o := range operators {
		names[i] = o.Name + "\t" + o.Summary
	}
	return cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)
}

// describe lists the operators for a command's help.
func describe(operators []catalog.Operator) string {
	var text strings.Builder
	for _, o := range operators {
		fmt.Fprintf(&text, "  %-12s %s\n", o.Name, o.Summary)
	}
	return strings.TrimSuffix(text.String(), "\n")
}
