package apiserver

import (
	"context"
	"fmt"
	"time"

	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/setpoint-dev/setpoint/plane/internal/inproc"
)

// startTimeout bounds Start, which waits for nothing that is not of this process.
const startTimeout = time.Minute

// Start serves requests of this process. It returns when discovery is complete,
// admission in force and the system namespaces exist; Ready waits for the rest. It
// cannot be cancelled, because upstream's parts can be stopped only after they have
// started.
func (s *Server) Start() error {
	ctx, cancel := context.WithTimeout(s.hooks, startTimeout)
	defer cancel()
	server := s.aggregate.GenericAPIServer
	server.PrepareRun()
	s.serveOpenAPI()
	s.inproc = inproc.NewServer(server.Handler)
	close(s.serving)
	if err := s.startInformers(ctx); err != nil {
		return err
	}
	if err := s.startAdmission(); err != nil {
		return err
	}
	if err := s.startInformers(ctx); err != nil { // those that admission wants
		return err
	}
	// Plugins that are asked before they have taken in what their informers know make
	// the request wait for 100 ms.
	time.Sleep(time.Millisecond)
	if err := s.addresses.start(s.client, s.shared); err != nil {
		return err
	}
	server.RunPostStartHooks(s.hooks)
	s.hooksRunning = true
	if err := s.createNamespaces(ctx); err != nil {
		return err
	}
	go s.keepSystemNamespaces()
	go func() { s.bootstrapped <- s.bootstrap(s.hooks) }()
	if err := awaitDiscovery(ctx, server); err != nil {
		return err
	}
	close(s.discoveryComplete)
	return nil
}

// Ready waits until everything of bootstrap exists and all checks of /readyz pass.
func (s *Server) Ready(ctx context.Context) error {
	select {
	case err := <-s.bootstrapped:
		if err != nil {
			return fmt.Errorf("writing the objects every cluster has: %w", err)
		}
	case <-ctx.Done():
		return fmt.Errorf("waiting for the objects every cluster has: %w", ctx.Err())
	}
	return s.awaitChecks(ctx)
}

// startInformers returns when all informers have their first listing.
func (s *Server) startInformers(ctx context.Context) error {
	crds, apiServices := s.crds.Informers, s.aggregate.APIRegistrationInformers
	s.shared.StartWithContext(s.hooks)
	crds.StartWithContext(s.hooks)
	apiServices.StartWithContext(s.hooks)
	for _, synced := range []error{
		s.shared.WaitForCacheSyncWithContext(ctx).AsError(),
		crds.WaitForCacheSyncWithContext(ctx).AsError(),
		apiServices.WaitForCacheSyncWithContext(ctx).AsError(),
	} {
		if synced != nil {
			return fmt.Errorf("waiting for the server's own informers: %w", synced)
		}
	}
	return nil
}

// awaitDiscovery waits until every resource that exists is routed.
func awaitDiscovery(ctx context.Context, server *genericapiserver.GenericAPIServer) error {
	for name, complete := range server.MuxAndDiscoveryCompleteSignals() {
		select {
		case <-complete:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", name, ctx.Err())
		}
	}
	return nil
}

// awaitChecks waits for the checks of /readyz. They cannot be waited for, only
// asked.
func (s *Server) awaitChecks(ctx context.Context) error {
	for _, check := range s.aggregate.GenericAPIServer.HealthzChecks() {
		what := fmt.Sprintf("waiting for the check %q", check.Name())
		if err := retry(ctx, what, func() error { return check.Check(nil) }); err != nil {
			return err
		}
	}
	return nil
}

// EndWatches ends watches, and lets the other requests finish. It comes before Stop.
func (s *Server) EndWatches() { s.endRun() }

// Stop ends all requests and goroutines of the server.
func (s *Server) Stop() {
	if s.hooksRunning {
		// A hook that is cancelled before it is through ends the process.
		_ = s.awaitChecks(context.Background())
	}
	s.endRun()
	if s.inproc != nil {
		s.inproc.Close()
	}
	if s.admission != nil {
		s.admission.close()
	}
	s.endHooks()
	if s.addresses != nil {
		s.addresses.stop()
	}
	if s.aggregate != nil {
		s.aggregate.GenericAPIServer.Destroy()
		s.aggregate.APIRegistrationInformers.Shutdown()
	}
	if s.crds != nil {
		s.crds.Informers.Shutdown()
	}
	if s.shared != nil {
		s.shared.Shutdown()
	}
	s.transport.CloseIdleConnections()
}
