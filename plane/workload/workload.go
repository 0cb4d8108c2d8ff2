package workload

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// Config says which controllers run, and against which API server.
type Config struct {
	// REST reaches the API server with the rights of system:masters. Rate limits
	// in it are ignored: the controllers ask as fast as they can.
	REST *rest.Config
	// Informers are shared with others of the same process, such as the fake
	// nodes. They must not run yet: upstream's controllers add handlers before they
	// are ready to be called. Nil: the controllers make their own and shut them down.
	Informers informers.SharedInformerFactory
	// Controllers selects what runs: names out of Names, or names to leave out,
	// written with a leading "-". Exclusions alone, like an empty list, start from
	// all controllers.
	Controllers []string
	// RootCA is the PEM bundle that kube-root-ca.crt holds in every namespace.
	// Empty: the CAData of REST.
	RootCA []byte
	// TokenKey signs the tokens of Secrets of type
	// kubernetes.io/service-account-token: an *rsa.PrivateKey or an
	// *ecdsa.PrivateKey. Nil: such Secrets stay empty.
	TokenKey crypto.Signer
	// Logger receives errors of the controllers, and their progress at level
	// debug. Nil: nothing is logged.
	Logger *slog.Logger
}

// Controllers are running upstream controllers.
type Controllers struct {
	synced chan struct{}
	done   chan struct{}
}

// Start builds the selected controllers, starts their informers and returns
// without waiting for a listing; the controllers begin to work when all informers
// have theirs, and run until ctx ends. It asks the API server for discovery, so
// the server must serve requests. All errors of the configuration come back at
// once.
func Start(ctx context.Context, config Config) (*Controllers, error) {
	selected, err := selectControllers(config.Controllers)
	if config.REST == nil {
		err = errors.Join(err, errors.New("workload: Config.REST is not set; give the configuration that reaches the plane's API server"))
	}
	if err != nil {
		return nil, err
	}

	ctx = klog.NewContext(ctx, contextLogger(config.Logger))
	shared, err := newEnvironment(ctx, config)
	if err != nil {
		return nil, err
	}
	loops := []loop{shared.resources.run}
	for _, c := range selected {
		run, err := c.build(ctx, shared)
		if err != nil {
			return nil, fmt.Errorf("workload: building the %s controller: %w", c.name, err)
		}
		loops = append(loops, run...)
	}

	shared.informers.StartWithContext(ctx)
	shared.monitors.Start(ctx.Done())
	close(shared.informersStarted)

	c := &Controllers{synced: make(chan struct{}), done: make(chan struct{})}
	go c.run(ctx, shared, loops)
	return c, nil
}

// run starts the loops once the informers have synced. Upstream's controllers
// poll for that in steps of 100 ms; started later, they find it done.
func (c *Controllers) run(ctx context.Context, shared *environment, loops []loop) {
	defer close(c.done)
	defer shared.shutdown()

	if shared.waitForSync(ctx) {
		close(c.synced)
	}
	// Also when ctx has ended: the queues, which have goroutines, end only in the loops.
	var group sync.WaitGroup
	for _, run := range loops {
		group.Go(func() { run(ctx) })
	}
	group.Wait()
}

// Synced is closed when the informers of all controllers have delivered their
// first listing and the controllers work. It stays open when ctx ends before.
func (c *Controllers) Synced() <-chan struct{} { return c.synced }

// Wait returns when all goroutines of the controllers have ended, which happens
// soon after the end of the context that Start was given.
func (c *Controllers) Wait() { <-c.done }

// contextLogger gives the upstream code a logger whose ordinary messages are
// debug messages: what a controller manager says about itself at every start is
// of no interest to those who embed it.
func contextLogger(logger *slog.Logger) klog.Logger {
	if logger == nil {
		return logr.Discard()
	}
	return logr.FromSlogHandler(logger.Handler()).V(-int(slog.LevelDebug))
}
