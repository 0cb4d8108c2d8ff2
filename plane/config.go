package plane

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/plane/node"
	"github.com/setpoint-dev/setpoint/plane/workload"
)

// Config describes a plane. The zero value is a complete one that is reached from
// inside of the process only: all controllers and one fake node.
type Config struct {
	// Listen is the host:port of a TLS listener, such as "127.0.0.1:0" for any free
	// port of the loopback interface. Empty: the plane has no listener.
	Listen string

	// APIOnly leaves out the controllers, the scheduler and the nodes: Deployments
	// make no Pods and deleted namespaces stay Terminating, as under envtest. Default
	// ServiceAccounts are missing too, so admission lets Pods in that name none.
	APIOnly bool

	// Controllers selects upstream's controllers by name, as workload.Config does:
	// "deployment" for this one, "-deployment" for all but this one. Empty: all.
	Controllers []string

	// Nodes are the fake nodes. REST, Informers and Logger in it are filled in by the
	// plane. Zero: one node that runs Pods at once.
	Nodes node.Config

	// Logger receives what the plane and Kubernetes' controllers report. Nil: nothing
	// is logged. The API server itself logs through klog, which is global to the
	// process and not touched.
	Logger *slog.Logger
}

// validate returns every mistake of the configuration at once.
func (c Config) validate() error {
	var errs []error
	if c.Listen != "" {
		if _, _, err := net.SplitHostPort(c.Listen); err != nil {
			errs = append(errs, fmt.Errorf("Listen is not a host:port such as 127.0.0.1:0: %w", err))
		}
	}
	if c.APIOnly && len(c.Controllers) > 0 {
		errs = append(errs, errors.New("Controllers are selected although APIOnly leaves them out: set one of the two"))
	}
	known := workload.Names()
	for _, name := range c.Controllers {
		name = strings.TrimPrefix(name, "-")
		if !slices.Contains(known, name) {
			errs = append(errs, fmt.Errorf("Controllers names %q, which is none of %s", name, strings.Join(known, ", ")))
		}
	}
	if c.Nodes.Count < 0 {
		errs = append(errs, fmt.Errorf("Nodes.Count is %d: it must not be negative", c.Nodes.Count))
	}
	return errors.Join(errs...)
}
