package plane

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"

	"github.com/setpoint-dev/setpoint/plane/internal/drain"
	"github.com/setpoint-dev/setpoint/plane/internal/pki"
)

// listener serves the API over TLS, with HTTP/2 and HTTP/1.1.
type listener struct {
	socket net.Listener
	config *tls.Config

	requests *drain.Requests
	server   *http.Server // nil until serve
	serving  sync.WaitGroup
}

// listen takes the port; connections wait until serve.
func listen(address string, authority *pki.Authority) (*listener, error) {
	socket, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening for the API: %w; choose another port, or 0 for one that is free", err)
	}
	host, _, _ := net.SplitHostPort(socket.Addr().String())
	cert, err := authority.Server("kube-apiserver", []string{
		host, "127.0.0.1", "::1", "localhost",
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "10.96.0.1",
	})
	if err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(authority.PEM)
	return &listener{socket: socket, requests: drain.New(), config: &tls.Config{
		MinVersion:   tls.VersionTLS12,
		NextProtos:   []string{"h2", "http/1.1"},
		Certificates: []tls.Certificate{cert.TLS},
		// Whoever brings none may bring a token; authentication decides.
		ClientAuth: tls.RequestClientCert,
		ClientCAs:  clients,
	}}, nil
}

// address is where clients on this machine reach the listener.
func (l *listener) address() string {
	address := l.socket.Addr().(*net.TCPAddr)
	if address.IP.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", strconv.Itoa(address.Port))
	}
	return address.String()
}

func (l *listener) serve(handler http.Handler, logger *slog.Logger) {
	l.server = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			ctx, done, ok := l.requests.Begin(req.Context())
			if !ok {
				http.Error(w, "the plane is stopping", http.StatusServiceUnavailable)
				return
			}
			defer done()
			handler.ServeHTTP(w, req.WithContext(ctx))
		}),
		TLSConfig: l.config,
		ErrorLog:  slog.NewLogLogger(logger.With("part", "listener").Handler(), slog.LevelDebug),
		HTTP2:     &http.HTTP2Config{MaxConcurrentStreams: 1000},
	}
	l.serving.Go(func() {
		err := l.server.ServeTLS(l.socket, "", "")
		if !errors.Is(err, http.ErrServerClosed) {
			logger.Error("the listener of the API has failed", "address", l.address(), "error", err)
		}
	})
}

// stop lets the requests finish, closes the connections, and returns when nothing is
// left of either.
func (l *listener) stop() {
	if l.server == nil {
		_ = l.socket.Close()
		return
	}
	l.requests.Close()
	_ = l.server.Close()
	l.serving.Wait()
}
