package operate

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/operators/catalog"
)

// oneToClean accepts the name of one of these operators, and says of others that they need no cleanup.
func oneToClean(operators []catalog.Operator) cobra.PositionalArgs {
	return func(cmd *cobra.Command, names []string) error {
		if err := oneOf(catalog.All())(cmd, names); err != nil {
			return err
		}
		if _, err := Choose(operators, names); err != nil {
			return Misuse{fmt.Errorf("the operator %s needs no cleanup: what it made goes with the objects that asked for it", names[0])}
		}
		return nil
	}
}

func newCleanup() *cobra.Command {
	operators := slices.DeleteFunc(catalog.All(), func(o catalog.Operator) bool { return o.Cleanup == nil })
	var at access
	var filter string
	cmd := &cobra.Command{
		Use:   "cleanup OPERATOR",
		Short: "Remove what an operator made from the objects of others",
		Long: "cleanup removes all that an operator made, and gives the objects that it wrote to back what they had. The operator\n" +
			"must not run meanwhile. Operators without objects of their own need this before they are uninstalled:\n\n" +
			describe(operators) + "\n\nWhat the others made goes with the objects that asked for it.",
		Example:           "  setpoint cleanup expose --filter preview-",
		Args:              oneToClean(operators),
		ValidArgsFunction: completeNames(operators),
	}
	at.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&filter, "filter", "", "only objects whose name contains this `text`")
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		chosen, _ := Choose(operators, names) // Args has looked at the error
		config, err := at.config()
		if err != nil {
			return err
		}
		config.QPS = -1
		c, err := client.New(client.Config{REST: config, FieldOwner: chosen[0].ObjectName()})
		if err != nil {
			return err
		}
		return chosen[0].Cleanup(cmd.Context(), c, filter)
	}
	return cmd
}
