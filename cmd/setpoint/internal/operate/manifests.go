package operate

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/setpoint-dev/setpoint/operators/catalog"
)

func newManifests(out io.Writer) *cobra.Command {
	operators := catalog.All()
	var i catalog.Installation
	cmd := &cobra.Command{
		Use:   "manifests OPERATOR --image IMAGE",
		Short: "Print what installs a shipped operator in a cluster",
		Long: "manifests prints, as YAML, an operator's kinds, the least rights that it needs and its Deployment. Options of the\n" +
			"operator that are given are passed on to it.\n\nOperators:\n" + describe(operators),
		Example:           "  setpoint manifests foo --image registry.example.com/setpoint:v1 | kubectl apply -f -",
		Args:              oneOf(operators),
		ValidArgsFunction: completeNames(operators),
	}
	f := cmd.Flags()
	f.StringVar(&i.Image, "image", "", "the `image` to run, as `make image` writes it; required")
	f.StringVar(&i.Namespace, "namespace", catalog.Namespace, "the operator's own `namespace`")
	f.Int32Var(&i.Replicas, "replicas", 2, "how many replicas there are, one of which leads")
	f.BoolVar(&i.Metrics, "metrics", false, "serve metrics, to those who may get /metrics; binds the ClusterRole system:auth-delegator")
	f.BoolVar(&i.Debug, "debug", false, "serve the debug endpoint beside the metrics, which 'setpoint why' asks")
	AddFlags(f, operators)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		chosen, _ := Choose(operators, names) // Args has looked at the error
		if err := Strangers(cmd.Flags(), operators, chosen); err != nil {
			return Misuse{err}
		}
		cmd.Flags().Visit(func(f *pflag.Flag) {
			if ownerOf(f.Name, chosen) != "" {
				i.Args = append(i.Args, "--"+f.Name+"="+f.Value.String())
			}
		})
		if i.Replicas < 1 {
			return Misuse{fmt.Errorf("--replicas: %d is less than 1", i.Replicas)}
		}
		text, err := chosen[0].Manifests(i)
		if err != nil {
			return Misuse{err}
		}
		_, err = io.WriteString(out, text)
		return err
	}
	return cmd
}
