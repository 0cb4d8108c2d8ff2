package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/cmd/setpoint/internal/operate"
	"github.com/setpoint-dev/setpoint/operators/catalog"
)

// operatorGrace is what running reconciles get when the plane stops. It is short, since the plane's content goes anyway.
const operatorGrace = 300 * time.Millisecond

// selectOperators returns the operators that --operators names. All are those that take no place of Kubernetes' own.
func selectOperators(all []catalog.Operator, names []string) ([]catalog.Operator, error) {
	switch {
	case slices.Equal(names, []string{"all"}):
		return slices.DeleteFunc(slices.Clone(all), func(o catalog.Operator) bool { return o.Replaces != "" }), nil
	case slices.Equal(names, []string{"none"}):
		return nil, nil
	case len(names) == 0:
		return nil, errors.New("--operators: name some, or say all or none")
	}
	chosen, err := operate.Choose(all, names)
	if err != nil {
		return nil, fmt.Errorf("--operators: %w, or say all or none", err)
	}
	return chosen, nil
}

// asOperator returns a configuration that does what the operator's ServiceAccount may do, and no more.
func asOperator(config *rest.Config, o catalog.Operator) *rest.Config {
	config = rest.CopyConfig(config)
	config.UserAgent = o.ObjectName() + "/" + ownVersion()
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + catalog.Namespace + ":" + o.ObjectName()}
	return config
}
