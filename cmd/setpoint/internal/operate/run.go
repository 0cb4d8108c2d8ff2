package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/lease"
	"github.com/setpoint-dev/setpoint/operators/catalog"
	"github.com/setpoint-dev/setpoint/telemetry"
)

// namespaceFile is where a Pod finds its namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// runOptions are the flags of `setpoint run` that are no operator's.
type runOptions struct {
	access
	namespace       string
	elect           bool
	shards          int
	metrics, health string
	webhooks        string
	debug           bool
	dryRun          bool
	format          string
	verbose         bool
}

func newRun(errOut io.Writer) *cobra.Command {
	operators := catalog.All()
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run OPERATOR...",
		Short: "Run shipped operators on any cluster, until interrupted",
		Long: "run runs operators on the cluster that kubectl would use, or on the one that it runs in. Their kinds, their\n" +
			"rights and the namespace of their leases must be there: see 'setpoint manifests'. With several replicas one works and\n" +
			"the others stand by, or, with --shards, all work. Options of an operator begin with its name.\n\nOperators:\n" + describe(operators),
		Example:           "  setpoint run foo\n  setpoint run foo --kubeconfig cluster.kubeconfig --leader-elect=false",
		Args:              someOf(operators),
		ValidArgsFunction: completeNames(operators),
	}
	f := cmd.Flags()
	o.addFlags(f)
	f.StringVar(&o.namespace, "namespace", "", "the operators' own `namespace`, where their leases are; by default the Pod's, or "+catalog.Namespace)
	f.BoolVar(&o.elect, "leader-elect", true, "work only while holding a lease, so that several replicas may run")
	f.IntVar(&o.shards, "shards", 0, "divide the work among all replicas by so many leases, in place of one leader")
	f.StringVar(&o.metrics, "metrics-address", "", "serve metrics at this `host:port`, guarded unless it is the loopback address; each further operator takes the next port")
	f.BoolVar(&o.debug, "debug", false, "serve the debug endpoint beside the metrics, which 'setpoint why' asks")
	f.StringVar(&o.webhooks, "webhook-address", "", "serve the webhooks of the operator that has some at this `host:port`")
	f.StringVar(&o.health, "health-address", "", "serve /healthz and /readyz at this `host:port`")
	f.BoolVar(&o.dryRun, "dry-run", false, "log writes in place of sending them")
	f.StringVar(&o.format, "log-format", "text", "text or json")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "log each reconcile")
	AddFlags(f, operators)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		chosen, _ := Choose(operators, names) // Args has looked at the error
		if err := errors.Join(o.validate(chosen), Strangers(cmd.Flags(), operators, chosen)); err != nil {
			return Misuse{err}
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return o.run(ctx, chosen, errOut)
	}
	return cmd
}

func (o *runOptions) validate(chosen []catalog.Operator) error {
	var errs []error
	if o.webhooks != "" && !slices.ContainsFunc(chosen, catalog.Operator.HasWebhooks) {
		errs = append(errs, errors.New("--webhook-address: none of these operators has webhooks"))
	}
	if o.format != "text" && o.format != "json" {
		errs = append(errs, fmt.Errorf("--log-format: %q is neither text nor json", o.format))
	}
	if o.shards < 0 || o.shards > lease.MaxShards {
		errs = append(errs, fmt.Errorf("--shards: %d is not within 0 and %d", o.shards, lease.MaxShards))
	}
	if o.debug && o.metrics == "" {
		errs = append(errs, errors.New("--debug needs --metrics-address, where it is served"))
	}
	for _, f := range []struct{ name, address string }{
		{"--health-address", o.health}, {"--metrics-address", o.metrics}, {"--webhook-address", o.webhooks},
	} {
		if _, err := shifted(f.address, 0); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", f.name, err))
		}
	}
	return errors.Join(errs...)
}

// shifted returns the address with a port that is n higher; an empty one, and port 0, stay.
func shifted(address string, n int) (string, error) {
	if address == "" {
		return "", nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", fmt.Errorf("%q is no host:port such as 127.0.0.1:8443: %w", address, err)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", fmt.Errorf("%q is no host:port such as 127.0.0.1:8443: the port is no number up to 65535", address)
	}
	if number > 0 {
		number += uint64(n)
	}
	return net.JoinHostPort(host, strconv.FormatUint(number, 10)), nil
}

// run runs the operators until ctx ends or one of them fails.
func (o *runOptions) run(ctx context.Context, operators []catalog.Operator, errOut io.Writer) error {
	logger := o.logger(errOut)
	klog.SetLogger(logr.FromSlogHandler(logger.Handler()))
	config, err := o.config()
	if err != nil {
		return err
	}
	var managers []*setpoint.Manager
	for i, operator := range operators {
		m, err := o.manager(operator, i, config, logger)
		if err != nil {
			return err
		}
		managers = append(managers, m)
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var running sync.WaitGroup
	if o.health != "" {
		listener, err := net.Listen("tcp", o.health)
		if err != nil {
			return fmt.Errorf("--health-address: %w", err)
		}
		running.Go(func() {
			if err := telemetry.Serve(ctx, listener, healthOf(managers), logger); err != nil {
				fail(fmt.Errorf("serve health: %w", err))
			}
		})
	}
	for i, m := range managers {
		running.Go(func() {
			if err := m.Run(ctx); err != nil {
				fail(fmt.Errorf("operator %s: %w", operators[i].Name, err))
			}
		})
	}
	running.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func (o *runOptions) logger(to io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.LevelInfo}
	if o.verbose {
		options.Level = slog.LevelDebug
	}
	if o.format == "json" {
		return slog.New(slog.NewJSONHandler(to, options))
	}
	return slog.New(slog.NewTextHandler(to, options))
}

// manager returns the manager of an operator, the i-th of them.
func (o *runOptions) manager(operator catalog.Operator, i int, config *rest.Config, logger *slog.Logger) (*setpoint.Manager, error) {
	metrics, err := shifted(o.metrics, i)
	if err != nil {
		return nil, err
	}
	cfg := setpoint.Config{
		REST:           rest.CopyConfig(config),
		Logger:         logger.With("operator", operator.Name),
		MetricsAddress: metrics,
		Debug:          o.debug,
		DryRun:         o.dryRun,
	}
	cfg.REST.UserAgent = operator.ObjectName()
	switch {
	case o.shards > 0:
		cfg.Shards = &setpoint.Shards{Count: o.shards}
	case o.elect:
		cfg.LeaderElection = &lease.Config{}
	}
	return operator.Manager(cfg, catalog.Place{Namespace: o.ownNamespace(), WebhookAddress: o.webhooks})
}

// ownNamespace is where the operators' leases are.
func (o *runOptions) ownNamespace() string {
	if o.namespace != "" {
		return o.namespace
	}
	if pod := os.Getenv("POD_NAMESPACE"); pod != "" {
		return pod
	}
	if data, err := os.ReadFile(namespaceFile); err == nil {
		return strings.TrimSpace(string(data))
	}
	return catalog.Namespace
}
