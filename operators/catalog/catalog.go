package catalog

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/cache"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/webhook"
)

// Namespace is where the operators' ServiceAccounts and leases are, unless they are installed elsewhere.
const Namespace = "setpoint-system"

// Operator is one that ships with Setpoint.
type Operator struct {
	Name    string
	Summary string // what it does, in a line
	// Replaces is the controller of Kubernetes that must not run beside the operator, by the name that the controller
	// manager knows; empty for most.
	Replaces string
	// Cleanup removes all that the operator made from objects whose name contains filter, while it does not run. The
	// client must have no cache. Nil: deleting the operator's objects does that.
	Cleanup func(ctx context.Context, c *client.Client, filter string) error

	crd         string // the kinds that it brings, as YAML; empty when it brings none
	rbac        string // its Namespace, ServiceAccount and rights, as YAML
	addToScheme func(*runtime.Scheme) error
	flags       func(*flag.FlagSet)                       // nil: it has no options
	kinds       func() map[schema.GroupKind]cache.Options // how it caches kinds; nil: as usual
	setup       func(m *setpoint.Manager, namespace string) error
	webhooks    *webhooks // nil: it has none
}

// webhooks are those of an operator.
type webhooks struct {
	rbac string // what they need to be allowed beyond the operator itself to make their certificates, as YAML
	// manifests returns the kinds that they serve and what leads API servers to them: to the URL, or if it is empty to a
	// Service. The CA vouches for them; with none the operator puts in its own.
	manifests func(url string, ca []byte) (string, error)
	add       func(m *setpoint.Manager, cfg setpoint.Config, at Place) error
}

// Place is where an operator runs.
type Place struct {
	// Namespace is the operator's own. Empty: Namespace.
	Namespace string
	// WebhookListener or WebhookAddress, a "host:port", is where webhooks are served; neither: they are not.
	WebhookListener net.Listener
	WebhookAddress  string
	// WebhookCertificates are what they are served with. Nil: the operator makes some for their Service.
	WebhookCertificates webhook.Certificates
}

// ObjectName is what the operator's ServiceAccount, roles, lease and field manager are called.
func (o Operator) ObjectName() string { return "setpoint-" + o.Name }

// HasWebhooks reports whether the operator can serve webhooks.
func (o Operator) HasWebhooks() bool { return o.webhooks != nil }

// Requirements returns, as YAML, what has to be there before the operator runs: its kinds, its ServiceAccount and its
// rights. With a URL that includes what leads API servers to its webhooks there, for which the CA vouches.
func (o Operator) Requirements(webhookURL string, ca []byte) ([]string, error) {
	if webhookURL == "" || o.webhooks == nil {
		return []string{o.crd, o.rbac}, nil
	}
	hooks, err := o.webhooks.manifests(webhookURL, ca)
	return []string{hooks, o.rbac}, err
}

// AddFlags declares the operator's options as flags whose names begin with the operator's. Manager heeds what they were
// set to.
func (o Operator) AddFlags(to *flag.FlagSet) {
	if o.flags == nil {
		return
	}
	own := flag.NewFlagSet(o.Name, flag.ContinueOnError)
	o.flags(own)
	own.VisitAll(func(f *flag.Flag) { to.Var(&setting{Value: f.Value}, o.Name+"-"+f.Name, f.Usage) })
}

// setting is the value of a flag that remembers the text it was set to.
type setting struct {
	flag.Value
	given string
	isSet bool
}

// Set implements flag.Value.
func (s *setting) Set(text string) error {
	if err := s.Value.Set(text); err != nil {
		return err
	}
	s.given, s.isSet = text, true
	return nil
}

// String implements flag.Value.
func (s *setting) String() string {
	switch {
	case s.isSet:
		return s.given
	case s.Value == nil: // package flag asks the zero value
		return ""
	}
	return s.Value.String()
}

// IsBoolFlag makes a flag of a bool one that needs no value.
func (s *setting) IsBoolFlag() bool {
	b, ok := s.Value.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag()
}

// Manager returns a manager that runs the operator. Scheme, FieldOwner, Kinds, and the name and namespace of the election
// or of the shards are the operator's; everything else is as cfg says.
func (o Operator) Manager(cfg setpoint.Config, at Place) (*setpoint.Manager, error) {
	cfg.Scheme = runtime.NewScheme()
	if err := errors.Join(clientscheme.AddToScheme(cfg.Scheme), o.addToScheme(cfg.Scheme)); err != nil {
		return nil, fmt.Errorf("operator %s: %w", o.Name, err)
	}
	if at.Namespace == "" {
		at.Namespace = Namespace
	}
	cfg.FieldOwner = o.ObjectName()
	if o.kinds != nil {
		cfg.Kinds = o.kinds()
	}
	if cfg.LeaderElection != nil {
		election := *cfg.LeaderElection
		election.Namespace, election.Name = at.Namespace, o.ObjectName()
		cfg.LeaderElection = &election
	}
	if cfg.Shards != nil {
		shards := *cfg.Shards
		shards.Lease.Namespace, shards.Lease.Name = at.Namespace, o.ObjectName()
		cfg.Shards = &shards
	}
	m, err := setpoint.NewManager(cfg)
	if err != nil {
		return nil, fmt.Errorf("operator %s: %w", o.Name, err)
	}
	if err := o.setup(m, at.Namespace); err != nil {
		return nil, err
	}
	if o.webhooks != nil && (at.WebhookListener != nil || at.WebhookAddress != "") {
		err = o.webhooks.add(m, cfg, at)
	}
	return m, err
}
