package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/lease"
	"github.com/setpoint-dev/setpoint/operators/foo"
)

// operatorGrace is what running reconciles get when the plane stops. It is short, since the plane's content goes anyway.
const operatorGrace = 300 * time.Millisecond

// operatorNamespace is where the operators' ServiceAccounts and leases are.
const operatorNamespace = "setpoint-system"

// operator is one that ships with Setpoint.
type operator struct {
	name        string
	crd, rbac   string // YAML
	addToScheme func(*runtime.Scheme) error
	setup       func(*setpoint.Manager) error
}

// shipped lists the operators there are, by name.
func shipped() []operator {
	return []operator{
		{foo.Name, foo.CRD(), foo.RBAC(), foo.AddToScheme, foo.Setup},
	}
}

// selectOperators returns the operators that --operators names.
func selectOperators(names []string) ([]operator, error) {
	all := shipped()
	switch {
	case slices.Equal(names, []string{"all"}):
		return all, nil
	case slices.Equal(names, []string{"none"}):
		return nil, nil
	case len(names) == 0:
		return nil, errors.New("--operators: name some, or say all or none")
	}
	var chosen []operator
	var errs []error
	known := make([]string, len(all))
	for i, o := range all {
		known[i] = o.name
		if slices.Contains(names, o.name) {
			chosen = append(chosen, o)
		}
	}
	for _, n := range names {
		if !slices.Contains(known, n) {
			errs = append(errs, fmt.Errorf("--operators: there is no operator %q; there are %s, or say all or none", n, strings.Join(known, ", ")))
		}
	}
	return chosen, errors.Join(errs...)
}

// objectName is what the operator's ServiceAccount, roles, lease and field manager are called.
func (o operator) objectName() string { return "setpoint-" + o.name }

// as returns a configuration that does what the operator's ServiceAccount may do, and no more.
func (o operator) as(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.UserAgent = o.objectName() + "/" + ownVersion()
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + operatorNamespace + ":" + o.objectName()}
	return config
}

// manager returns a manager that runs the operator against the server of config.
func (o operator) manager(config *rest.Config, logger *slog.Logger) (*setpoint.Manager, error) {
	logger = logger.With("operator", o.name)
	scheme := runtime.NewScheme()
	if err := errors.Join(clientscheme.AddToScheme(scheme), o.addToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("operator %s: %w", o.name, err)
	}
	config = o.as(config)
	config.Wrap(logRequests(logger))
	m, err := setpoint.NewManager(setpoint.Config{
		REST:           config,
		Scheme:         scheme,
		Logger:         logger,
		FieldOwner:     o.objectName(),
		LeaderElection: &lease.Config{Namespace: operatorNamespace, Name: o.objectName()},
		GracePeriod:    operatorGrace,
	})
	if err != nil {
		return nil, fmt.Errorf("operator %s: %w", o.name, err)
	}
	if err := o.setup(m); err != nil {
		return nil, err
	}
	return m, nil
}

// run runs the operator until ctx ends.
func (o operator) run(ctx context.Context, config *rest.Config, logger *slog.Logger) error {
	m, err := o.manager(config, logger)
	if err != nil {
		return err
	}
	if err := m.Run(ctx); err != nil {
		return fmt.Errorf("operator %s: %w", o.name, err)
	}
	return nil
}
