package plane

import (
	"context"
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"
)

// Plane is one control plane. Its methods may be called from several goroutines.
type Plane struct {
	config Config
}

// New checks the configuration. It starts nothing.
func New(config Config) (*Plane, error) {
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("configuring the plane: %w", err)
	}
	return &Plane{config: config}, nil
}

// Start brings the plane up and returns when it is ready. ctx bounds the start
// only; a started plane runs until Stop. A plane is started once.
func (p *Plane) Start(ctx context.Context) error { return nil }

// Stop ends the plane: open requests and watches first, then the controllers,
// then the store. It returns when their goroutines are gone. Stopping a plane that
// was not started, or again, does nothing.
func (p *Plane) Stop() {}

// Handler serves the API without TLS and without a listener. A request that brings
// no credentials is anonymous.
func (p *Plane) Handler() http.Handler { return nil }

// RESTConfig reaches the plane from inside of the process, as a member of
// system:masters and without rate limits. Give it a BearerToken or Impersonate to
// act as somebody else. Requests fail unless the plane runs.
func (p *Plane) RESTConfig() *rest.Config { return nil }

// Kubeconfig is a kubeconfig file for the TLS listener. It contains the private key
// of a member of system:masters. It is an error to ask for it without a listener.
func (p *Plane) Kubeconfig() ([]byte, error) { return nil, nil }

// Address is the host:port of the TLS listener, empty without one.
func (p *Plane) Address() string { return "" }
