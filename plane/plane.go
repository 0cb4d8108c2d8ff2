package plane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/plane/internal/apiserver"
	"github.com/setpoint-dev/setpoint/plane/internal/inproc"
	"github.com/setpoint-dev/setpoint/plane/internal/pki"
	"github.com/setpoint-dev/setpoint/plane/store"
)

// admin is whom RESTConfig and Kubeconfig act as.
var admin = &user.DefaultInfo{
	Name:   "setpoint-admin",
	Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated},
}

// Plane is one control plane. Its methods may be called from several goroutines.
type Plane struct {
	config Config
	logger *slog.Logger

	mu    sync.Mutex // held by Start and Stop
	state state

	// ready is what the other methods read: nil unless the plane runs.
	readyMu sync.Mutex
	ready   *running
}

type state int

const (
	fresh state = iota
	started
	stopped
)

// running is what a started plane consists of.
type running struct {
	authority *pki.Authority
	admin     *pki.Pair
	store     *store.Store
	server    *apiserver.Server
	listener  *listener
	workload  *workloads
}

// New checks the configuration. It starts nothing.
func New(config Config) (*Plane, error) {
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("configuring the plane: %w", err)
	}
	logger := config.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Plane{config: config, logger: logger}, nil
}

// Start brings the plane up and returns when it is ready. ctx bounds the start
// only; a started plane runs until Stop. A plane is started once; when Start fails,
// nothing of it is left.
func (p *Plane) Start(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != fresh {
		return errors.New("starting the plane: it has been started before; make another one with New")
	}
	p.state = started
	r := &running{}
	if err := r.start(ctx, p.config, p.logger); err != nil {
		r.stop()
		p.state = stopped
		return fmt.Errorf("starting the plane: %w", err)
	}
	p.setReady(r)
	return nil
}

// Stop ends the plane: open requests and watches first, then the controllers,
// then the store. It returns when their goroutines are gone. Stopping a plane that
// was not started, or again, does nothing.
func (p *Plane) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != started {
		return
	}
	p.state = stopped
	r := p.running()
	p.setReady(nil)
	r.stop()
}

func (p *Plane) setReady(r *running) {
	p.readyMu.Lock()
	defer p.readyMu.Unlock()
	p.ready = r
}

func (p *Plane) running() *running {
	p.readyMu.Lock()
	defer p.readyMu.Unlock()
	return p.ready
}

// Handler serves the API without TLS and without a listener. A request that brings
// no credentials is anonymous. Before Start and after Stop it answers 503.
func (p *Plane) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r := p.running()
		if r == nil {
			http.Error(w, "the plane is not running", http.StatusServiceUnavailable)
			return
		}
		r.server.Handler().ServeHTTP(w, req)
	})
}

// RESTConfig reaches the plane from inside of the process, as a member of
// system:masters and without rate limits. Give it a BearerToken or Impersonate to
// act as somebody else. Requests fail unless the plane runs.
func (p *Plane) RESTConfig() *rest.Config {
	return inproc.RESTConfig(func() *inproc.Server {
		if r := p.running(); r != nil {
			return r.server.InProcess()
		}
		return nil
	}, admin)
}

// Kubeconfig is a kubeconfig file for the TLS listener. It contains the private key
// of a member of system:masters. It is an error to ask for it when the plane does
// not run or has no listener.
func (p *Plane) Kubeconfig() ([]byte, error) {
	r := p.running()
	if r == nil || r.listener == nil {
		return nil, errors.New("making a kubeconfig: the plane has no listener; set Config.Listen and start it first")
	}
	return kubeconfig(r.listener.address(), r.authority, r.admin)
}

// Address is the host:port of the TLS listener, empty when there is none.
func (p *Plane) Address() string {
	if r := p.running(); r != nil && r.listener != nil {
		return r.listener.address()
	}
	return ""
}
