package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/setpoint-dev/setpoint/cmd/setpoint/internal/operate"
	"github.com/setpoint-dev/setpoint/operators/catalog"
)

// upOptions are the flags of `setpoint up`.
type upOptions struct {
	listen     string
	kubeconfig string
	files      []string
	wait       bool
	operators  []string
	node       string
	nodes      int
	verbose    bool
	// shipped are the operators there are, with the options that flags gave them.
	shipped []catalog.Operator
}

func newUp(s streams) *cobra.Command {
	o := upOptions{shipped: catalog.All()}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a control plane with Setpoint's operators; runs until interrupted",
		Long: "up starts a Kubernetes control plane and Setpoint's operators in this process, applies what is given with -f,\n" +
			"shows how it becomes ready, and runs until it is interrupted. Everything is kept in memory and gone then.\n\n" +
			"It prints one line, 'ready in N ms', with the server's address and the kubeconfig, once the server and the\n" +
			"operators' kinds can be used; with --wait, once all that was applied is ready, too.",
		Example: "  setpoint up\n" +
			"  setpoint up -f examples/quickstart\n" +
			"  setpoint up --kubeconfig plane.kubeconfig --operators none --wait -f crds/ -f objects.yaml",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(cmd.Flags()); err != nil {
				return misuse{err}
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return up(ctx, o, s)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", "127.0.0.1:0", "`host:port` of the server; port 0 is any free one. Others than the loopback address open the plane to the network")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "write the kubeconfig to this `file` instead of one in the user's cache folder")
	f.StringArrayVarP(&o.files, "filename", "f", nil, "apply the objects in this `path`: a file, a folder's files, or - for the standard input; may be repeated")
	f.BoolVar(&o.wait, "wait", false, "print the ready line only once all that was applied is ready")
	f.StringSliceVar(&o.operators, "operators", []string{"all"}, "operators to run: `names` with commas between, all, or none")
	f.StringVar(&o.node, "node", "fake", "what runs Pods: fake (they become ready without running anything), or none (nothing schedules them, so they stay Pending)")
	f.IntVar(&o.nodes, "nodes", 1, "number of fake nodes")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "write logs to the standard error")
	operate.AddFlags(f, o.shipped)
	o.completions(cmd)
	return cmd
}

// completions tells the shell what the flags take.
func (o *upOptions) completions(cmd *cobra.Command) {
	names := []string{"all", "none"}
	for _, op := range o.shipped {
		names = append(names, op.Name)
	}
	for flag, fn := range map[string]cobra.CompletionFunc{
		"operators": cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp),
		"node":      cobra.FixedCompletions([]string{"fake", "none"}, cobra.ShellCompDirectiveNoFileComp),
	} {
		if err := cmd.RegisterFlagCompletionFunc(flag, fn); err != nil {
			panic(err) // the flag is not declared above
		}
	}
}

// validate returns everything that is wrong with the flags.
func (o *upOptions) validate(flags *pflag.FlagSet) error {
	var errs []error
	_, port, err := net.SplitHostPort(o.listen)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		errs = append(errs, fmt.Errorf("--listen: %q is not a host:port such as 127.0.0.1:0", o.listen))
	}
	chosen, err := selectOperators(o.shipped, o.operators)
	if err == nil {
		err = operate.Strangers(flags, o.shipped, chosen)
	}
	errs = append(errs, err)
	if o.node != "fake" && o.node != "none" {
		errs = append(errs, fmt.Errorf("--node: %q is neither fake nor none", o.node))
	}
	if o.nodes < 1 {
		errs = append(errs, fmt.Errorf("--nodes: %d is less than 1; for none say --node none", o.nodes))
	}
	return errors.Join(errs...)
}
