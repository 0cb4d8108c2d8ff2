package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/setpoint-dev/setpoint/telemetry"
)

// The limits of a server's connections.
const (
	headerTimeout = 10 * time.Second
	readTimeout   = time.Minute
	idleTimeout   = 5 * time.Minute
	maxHeader     = 64 << 10
)

// defaultGracePeriod lets every running request end by itself.
const defaultGracePeriod = maxTimeout

// Certificates is where a Server's certificate comes from: Files or an
// Authority.
type Certificates interface {
	// Certificate may be called before Run, and returns a certificate with its
	// Leaf.
	telemetry.Certificates
	// Check says whether the certificate can be served, and for how long.
	Check() (detail string, err error)
}

// Config configures a Server.
type Config struct {
	// Address is where Run listens, as "host:port". A missing host is the
	// loopback address; a Pod that a Service leads to listens on "0.0.0.0:9443".
	// It may be empty when Serve is called instead of Run.
	Address string
	// Certificates must be set. The server runs it.
	Certificates Certificates
	// Logger also goes into the context of each request. Nil discards.
	Logger *slog.Logger
	// Metrics may be nil.
	Metrics prometheus.Registerer
	// GracePeriod is what running requests get to end at a stop. Zero: 30
	// seconds, which is as long as any request may take.
	GracePeriod time.Duration
}

// Server serves webhooks over TLS. It belongs on every replica, not only on the
// one that leads:
//
//	m.Add(setpoint.Runnable{Name: "webhooks", Run: server.Run, Standby: true, Check: server.Check})
type Server struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics
	mux     *http.ServeMux
	paths   map[string]bool
	errs    []error // mistakes in calls of Handle
}

// NewServer checks the configuration, all at once, and returns a server that
// does nothing yet.
func NewServer(cfg Config) (*Server, error) {
	var errs []error
	if cfg.Address != "" {
		address, err := telemetry.Address(cfg.Address)
		errs = append(errs, err)
		cfg.Address = address
	}
	if cfg.Certificates == nil {
		errs = append(errs, errors.New("no Certificates: use NewFiles or NewAuthority"))
	}
	if cfg.GracePeriod < 0 {
		errs = append(errs, fmt.Errorf("invalid GracePeriod %v", cfg.GracePeriod))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("webhook server: %w", err)
	}
	if cfg.GracePeriod == 0 {
		cfg.GracePeriod = defaultGracePeriod
	}
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	metrics, err := newMetrics(cfg.Metrics, cfg.Certificates)
	if err != nil {
		return nil, fmt.Errorf("webhook server: register metrics (does another server use the registry?): %w", err)
	}
	return &Server{cfg: cfg, log: log, metrics: metrics, mux: http.NewServeMux(), paths: map[string]bool{}}, nil
}

// Handle serves h at a path; see ValidatePath, MutatePath and ConvertPath. It
// must be called before Run, which returns what is wrong with the paths.
func (s *Server) Handle(path string, h http.Handler) {
	switch {
	case path == "" || path[0] != '/' || h == nil:
		s.errs = append(s.errs, fmt.Errorf("webhook at %q: want a path that begins with a slash, and a handler", path))
	case s.paths[path]:
		s.errs = append(s.errs, fmt.Errorf("webhook at %q: the path is used twice", path))
	default:
		s.paths[path] = true
		s.mux.Handle(path, s.metrics.instrument(path, s.withContext(path, h)))
	}
}

// withContext gives each request a logger and a counter of panics.
func (s *Server) withContext(path string, next http.Handler) http.Handler {
	panics := s.metrics.panics.WithLabelValues(path)
	log := s.log.With("webhook", path)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx := logr.NewContextWithSlogLogger(req.Context(), log)
		next.ServeHTTP(w, req.WithContext(context.WithValue(ctx, panicKey{}, panics.Inc)))
	})
}

// ServeHTTP serves the webhooks without TLS, for tests and for servers of others.
func (s *Server) ServeHTTP(w http.ResponseWriter, req *http.Request) { s.mux.ServeHTTP(w, req) }

// Check is a readiness check: it fails until the certificate is in place, and
// after it has expired.
func (s *Server) Check() (detail string, err error) { return s.cfg.Certificates.Check() }

// Run listens on Config.Address and serves as Serve does.
func (s *Server) Run(ctx context.Context) error {
	if s.cfg.Address == "" {
		return errors.New("webhook server: no Address to listen on")
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.cfg.Address)
	if err != nil {
		return fmt.Errorf("webhook server: %w", err)
	}
	return s.Serve(ctx, listener)
}

// Serve serves over TLS 1.2 or later on listener, which it closes, until ctx
// ends. Then it takes no more connections, lets running requests end within the
// grace period, and returns nil. Until there is a certificate, handshakes fail.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	defer listener.Close()
	if err := errors.Join(s.errs...); err != nil {
		return fmt.Errorf("webhook server: %w", err)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	// Requests outlive ctx by the grace period.
	requests, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()

	server := &http.Server{
		Handler:           s,
		TLSConfig:         s.tls(),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), // handshakes of strangers
		BaseContext:       func(net.Listener) context.Context { return requests },
	}
	s.log.Info("serving webhooks", "address", listener.Addr().String())
	ended := make(chan error, 2)
	go func() {
		err := s.cfg.Certificates.Run(ctx)
		if err != nil {
			err = fmt.Errorf("webhook certificates: %w", err)
		}
		stop(err)
		ended <- err
	}()
	go func() {
		err := server.ServeTLS(listener, "", "")
		if errors.Is(err, http.ErrServerClosed) {
			err = nil
		}
		stop(err)
		ended <- err
	}()

	<-ctx.Done()
	s.drain(ctx, server)
	return errors.Join(<-ended, <-ended)
}

func (s *Server) drain(ctx context.Context, server *http.Server) {
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.GracePeriod)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		s.log.Warn("webhook requests cut off at the stop", "after", s.cfg.GracePeriod, "error", err)
		server.Close()
	}
}

func (s *Server) tls() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return s.cfg.Certificates.Certificate()
		},
	}
}
