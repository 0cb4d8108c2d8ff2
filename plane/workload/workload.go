package workload

import (
	"context"
	"crypto"
	"log/slog"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
)

// Config says which controllers run, and against which API server.
type Config struct {
	// REST reaches the API server with the rights of system:masters. Rate limits
	// in it are ignored: the controllers ask as fast as they can.
	REST *rest.Config
	// Informers are shared with others of the same process, such as the fake
	// node. Nil: the controllers make their own and shut them down.
	Informers informers.SharedInformerFactory
	// Controllers selects what runs; see Select. Empty: all.
	Controllers []string
	// RootCA is the PEM bundle that kube-root-ca.crt holds in every namespace.
	// Empty: REST's CAData.
	RootCA []byte
	// TokenKey signs the tokens of Secrets of type
	// kubernetes.io/service-account-token. Nil: such Secrets stay empty.
	TokenKey crypto.Signer
	// Logger receives what the controllers say. Nil: nothing is logged.
	Logger *slog.Logger
}

// Controllers are running upstream controllers.
type Controllers struct {
	synced chan struct{}
	done   chan struct{}
}

// Start builds the selected controllers, starts them and their informers, and
// returns without waiting for a listing. They run until ctx ends.
func Start(ctx context.Context, config Config) (*Controllers, error) {
	return nil, nil
}

// Synced is closed when the informers of all controllers have delivered their
// first listing. It stays open when ctx ends before that.
func (c *Controllers) Synced() <-chan struct{} { return c.synced }

// Wait returns when all goroutines of the controllers have ended, which happens
// soon after the end of the context that Start was given.
func (c *Controllers) Wait() { <-c.done }

// NewInformers makes the informer factory that controllers and fake nodes of one
// plane share. It drops managedFields from what it keeps. Whoever makes it shuts
// it down, after the last Wait.
func NewInformers(config *rest.Config) (informers.SharedInformerFactory, error) {
	return nil, nil
}

// Names lists every controller there is, sorted.
func Names() []string { return nil }
