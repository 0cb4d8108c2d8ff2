// Command setpoint-operators is the part of setpoint that runs the shipped operators on a cluster, without the control
// plane: a third of its size. It is what the image holds.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	_ "golang.org/x/crypto/x509roots/fallback" // the image has no others, and reload's notifications go anywhere

	"github.com/setpoint-dev/setpoint/cmd/setpoint/internal/operate"
)

// version is set by the linker.
var version = "unknown"

func main() {
	root := &cobra.Command{
		Use:           "setpoint-operators",
		Short:         "Setpoint's operators, for any cluster",
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(operate.Commands(os.Stdout, os.Stderr)...)
	err := root.ExecuteContext(context.Background())
	switch {
	case err == nil:
	case errors.As(err, new(operate.Misuse)):
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(2)
	default:
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}
