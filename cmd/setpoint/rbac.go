package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/telemetry/debug"
)

func newRBAC(s streams) *cobra.Command {
	var o endpointOptions
	cmd := &cobra.Command{
		Use:   "rbac",
		Short: "Print the roles that running managers need, from what they were seen to do",
		Long: "rbac asks managers as 'setpoint why' does, and prints, as YAML, the roles that each needs: what its requests were seen to\n" +
			"need and what its declarations will need. Let every path of the program run before, its deletions among them: what was\n" +
			"not seen is marked or left out.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			ctx, cancel := context.WithTimeoutCause(ctx, whyLimit, fmt.Errorf("no answer within %v", whyLimit))
			defer cancel()
			return printRoles(ctx, &o, s)
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func printRoles(ctx context.Context, o *endpointOptions, s streams) error {
	endpoints, _, err := o.find(ctx)
	if err != nil {
		return err
	}
	defer endpoints.close()
	for _, e := range endpoints.all {
		data, err := e.get(ctx, debug.PathRoles)
		if err != nil {
			return fmt.Errorf("asking %s: %w", e.name, err)
		}
		fmt.Fprintf(s.out, "---\n# %s\n%s", e.name, data)
	}
	return nil
}
