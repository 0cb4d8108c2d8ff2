package catalog

import (
	"errors"
	"flag"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/cache"
	"github.com/setpoint-dev/setpoint/operators/foo"
)

// Namespace is where the operators' ServiceAccounts and leases are, unless they are installed elsewhere.
const Namespace = "setpoint-system"

// Operator is one that ships with Setpoint.
type Operator struct {
	Name    string
	Summary string // what it does, in a line
	CRD     string // the kinds that it brings, as YAML; empty when it brings none
	RBAC    string // its Namespace, ServiceAccount and rights, as YAML

	addToScheme func(*runtime.Scheme) error
	flags       func(*flag.FlagSet)                       // nil: it has no options
	kinds       func() map[schema.GroupKind]cache.Options // how it caches kinds; nil: as usual
	setup       func(*setpoint.Manager) error
}

// All returns the operators by name, with their default options.
func All() []Operator {
	return []Operator{
		{
			Name: foo.Name, Summary: "a sample: each Foo owns a Deployment",
			CRD: foo.CRD(), RBAC: foo.RBAC(), addToScheme: foo.AddToScheme, setup: foo.Setup,
		},
	}
}

// ObjectName is what the operator's ServiceAccount, roles, lease and field manager are called.
func (o Operator) ObjectName() string { return "setpoint-" + o.Name }

// AddFlags declares the operator's options as flags whose names begin with the operator's. Manager heeds what they were
// set to.
func (o Operator) AddFlags(to *flag.FlagSet) {
	if o.flags == nil {
		return
	}
	own := flag.NewFlagSet(o.Name, flag.ContinueOnError)
	o.flags(own)
	own.VisitAll(func(f *flag.Flag) { to.Var(f.Value, o.Name+"-"+f.Name, f.Usage) })
}

// Manager returns a manager that runs the operator. Scheme, FieldOwner, Kinds and the name of the election or of the shards
// are the operator's; everything else is as cfg says.
func (o Operator) Manager(cfg setpoint.Config) (*setpoint.Manager, error) {
	cfg.Scheme = runtime.NewScheme()
	if err := errors.Join(clientscheme.AddToScheme(cfg.Scheme), o.addToScheme(cfg.Scheme)); err != nil {
		return nil, fmt.Errorf("operator %s: %w", o.Name, err)
	}
	cfg.FieldOwner = o.ObjectName()
	if o.kinds != nil {
		cfg.Kinds = o.kinds()
	}
	if cfg.LeaderElection != nil {
		election := *cfg.LeaderElection
		election.Name = o.ObjectName()
		cfg.LeaderElection = &election
	}
	if cfg.Shards != nil {
		shards := *cfg.Shards
		shards.Lease.Name = o.ObjectName()
		cfg.Shards = &shards
	}
	m, err := setpoint.NewManager(cfg)
	if err != nil {
		return nil, fmt.Errorf("operator %s: %w", o.Name, err)
	}
	if err := o.setup(m); err != nil {
		return nil, err
	}
	return m, nil
}
