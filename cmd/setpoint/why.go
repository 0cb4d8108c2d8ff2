package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/telemetry/debug"
)

// whyLimit bounds a whole `setpoint why`.
const whyLimit = 30 * time.Second

// whyOptions are the flags of `setpoint why` and `setpoint rbac`, and for the former the object.
type whyOptions struct {
	kind, namespace, name string
	cluster               string
	output                string
	endpointOptions
}

func newWhy(s streams) *cobra.Command {
	var o whyOptions
	cmd := &cobra.Command{
		Use:   "why KIND/NAME",
		Short: "Tell the story of one object: its last reconciles, why, what they wrote, and when it runs next",
		Long: "why asks the debug endpoints of managers that are built on Setpoint's runtime: by default those of the operators that\n" +
			"'setpoint up' started last; with --address any other; with --pod one in a cluster, through a forwarded port. A kind may\n" +
			"carry its group, as in foo.sample.setpoint.dev/website. What a controller makes has a story, too: that of who wrote it.\n\n" +
			"A manager serves the endpoint with Config.Debug, guarded as its metrics are: whose token is given must be allowed to\n" +
			"get the path /debug/setpoint/object.",
		Example: "  setpoint why foo/website\n" +
			"  setpoint why deployment website -n quickstart -o json\n" +
			"  setpoint why foo/website --pod setpoint-system/setpoint-foo-0 --service-account setpoint-system/reader",
		Args: func(_ *cobra.Command, args []string) error {
			if err := o.object(args); err != nil {
				return misuse{err}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.output != "" && o.output != "json" {
				return misuse{fmt.Errorf("--output: %q is not understood, only json is", o.output)}
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			ctx, cancel := context.WithTimeoutCause(ctx, whyLimit, fmt.Errorf("no answer within %v", whyLimit))
			defer cancel()
			return o.run(ctx, s)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.namespace, "namespace", "n", "", "the object's `namespace`; by default the kubeconfig's, or default. Ignored for kinds without namespaces")
	f.StringVar(&o.cluster, "cluster", "", "the `cluster` of a manager of several; by default its own")
	f.StringVarP(&o.output, "output", "o", "", "'json' for programs; by default a table")
	o.addFlags(f)
	return cmd
}

// object understands KIND/NAME and KIND NAME.
func (o *whyOptions) object(args []string) error {
	if len(args) == 1 {
		args = strings.SplitN(args[0], "/", 2)
	}
	if len(args) != 2 || args[0] == "" || args[1] == "" || strings.Contains(args[0]+args[1], "/") {
		return errors.New("name one object, as in foo/website or foo website")
	}
	o.kind, o.name = args[0], args[1]
	return nil
}

// told is what one manager answered.
type told struct {
	Manager string      `json:"manager"`
	Story   debug.Story `json:"story"`
}

// known reports whether the manager has anything to tell.
func (t told) known() bool {
	return len(t.Story.Others) > 0 || t.Story.Exists != nil && *t.Story.Exists ||
		slices.ContainsFunc(t.Story.Controllers, func(c debug.Chapter) bool {
			return len(c.Reconciles) > 0 || c.Now != nil || c.Next != nil || c.Parked
		})
}

// stories asks all managers at once for the object of a kind. It returns what those say that know it, in the managers'
// order, and why others did not answer.
func (o *whyOptions) stories(ctx context.Context, endpoints *endpoints, kind, namespace string) ([]told, error) {
	answers, errs := make([]told, len(endpoints.all)), make([]error, len(endpoints.all))
	var asked sync.WaitGroup
	for i, e := range endpoints.all {
		asked.Go(func() {
			story, err := e.story(ctx, kind, namespace, o.name, o.cluster)
			if err != nil {
				errs[i] = fmt.Errorf("asking %s: %w", e.name, err)
			}
			answers[i] = told{e.name, story}
		})
	}
	asked.Wait()
	return slices.DeleteFunc(answers, func(t told) bool { return !t.known() }), errors.Join(errs...)
}

// print prints the stories as the flags say.
func (o *whyOptions) print(out io.Writer, stories []told) error {
	if o.output == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(stories)
	}
	for i, t := range stories {
		if i > 0 {
			fmt.Fprintln(out)
		}
		if err := t.print(out, time.Now()); err != nil {
			return err
		}
	}
	return nil
}

// run asks all managers and prints what those say that know the object. It fails when one of them did not answer.
func (o *whyOptions) run(ctx context.Context, s streams) error {
	endpoints, namespace, err := o.find(ctx)
	if err != nil {
		return err
	}
	defer endpoints.close()
	if o.namespace != "" {
		namespace = o.namespace
	}
	stories, silent := o.stories(ctx, endpoints, o.kind, namespace)
	var notAsked error
	if len(stories) == 0 { // managers know kinds and resources, but no short names
		var kind string
		if kind, notAsked = fullKind(endpoints.cluster, o.kind); kind != "" {
			stories, silent = o.stories(ctx, endpoints, kind, namespace)
		}
	}
	if err := o.print(s.out, stories); err != nil || len(stories) > 0 || silent != nil {
		return errors.Join(err, silent)
	}
	where := fmt.Sprintf("the namespace %q", namespace)
	if o.cluster != "" {
		where += fmt.Sprintf(" of the cluster %q", o.cluster)
	}
	err = fmt.Errorf("no manager that was asked (%s) knows %s %s in %s: none reconciles, reads or wrote it",
		strings.Join(endpoints.names(), ", "), o.kind, o.name, where)
	if notAsked != nil {
		err = fmt.Errorf("%w; and the API server could not be asked what kind %q is: %w", err, o.kind, notAsked)
	}
	return err
}
