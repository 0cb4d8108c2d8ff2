package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	appsv1 "k8s.io/api/apps/v1"
)

// pipes is a listener whose connections are pipes in memory.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	select {
	case <-p.closed:
	default:
		close(p.closed)
	}
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "pipe"} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-p.closed:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// transport makes connections as an API server with this CA does.
func (p *pipes) transport(ca *x509.Certificate, most uint16) *http.Transport {
	roots := x509.NewCertPool()
	if ca != nil {
		roots.AddCert(ca)
	}
	return &http.Transport{DialContext: p.dial, ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: host, MaxVersion: most}}
}

// fixed are certificates that do not change.
type fixed struct{ current }

func (f *fixed) Run(ctx context.Context) error          { <-ctx.Done(); return nil }
func (f *fixed) Certificate() (*tls.Certificate, error) { return f.get() }
func (f *fixed) Check() (string, error)                 { return f.check() }

// newPair returns a CA and a serving certificate of it.
func newPair(t *testing.T) (ca, serving keyPair) {
	t.Helper()
	ca, err := newCA("test", time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if serving, err = ca.issue([]string{host}, time.Now(), time.Hour); err != nil {
		t.Fatal(err)
	}
	return ca, serving
}

// startServer serves until stop is called, which returns how it ended.
func startServer(t *testing.T, cfg Config, handlers map[string]http.Handler) (p *pipes, stop func() error) {
	t.Helper()
	server, err := NewServer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for path, h := range handlers {
		server.Handle(path, h)
	}
	p = newPipes()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, p) }()
	return p, func() error { cancel(); return <-ended }
}

func send(transport *http.Transport, path string, body []byte) (int, string, error) {
	resp, err := (&http.Client{Transport: transport}).Post("https://"+host+path, "application/json", bytes.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.ProtoMajor*1000 + resp.StatusCode, string(text), err
}

func TestServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca, serving := newPair(t)
		certs := &fixed{}
		registry := prometheus.NewRegistry()
		review := recorded(t, "create")
		p, stop := startServer(t, Config{Certificates: certs, Metrics: registry}, map[string]http.Handler{
			"/ok":    Validate(func(context.Context, Request[*appsv1.Deployment]) ([]string, error) { return nil, nil }),
			"/panic": Validate(func(context.Context, Request[*appsv1.Deployment]) ([]string, error) { panic("oops") }),
		})
		modern, old := p.transport(ca.cert, 0), p.transport(ca.cert, tls.VersionTLS11)
		old.TLSClientConfig.MinVersion = tls.VersionTLS10
		if _, _, err := send(modern, "/ok", review); err == nil {
			t.Error("served without a certificate")
		}
		certs.set((&keyring{serving: serving}).tls())
		if code, text, err := send(modern, "/ok", review); err != nil || code != 2200 || !strings.Contains(text, `"allowed":true`) {
			t.Errorf("%d %s: %v, want an answer by HTTP/2", code, text, err)
		}
		if code, text, err := send(modern, "/panic", review); err != nil || code != 2500 || !strings.Contains(text, "oops") {
			t.Errorf("%d %s: %v", code, text, err)
		}
		if code, _, err := send(modern, "/other", review); err != nil || code != 2404 {
			t.Errorf("%d: %v, want nothing there", code, err)
		}
		if _, _, err := send(old, "/ok", review); err == nil {
			t.Error("TLS 1.1 is served")
		}
		want := `
# HELP controller_runtime_webhook_panics_total Requests whose function panicked, by path.
# TYPE controller_runtime_webhook_panics_total counter
controller_runtime_webhook_panics_total{webhook="/ok"} 0
controller_runtime_webhook_panics_total{webhook="/panic"} 1
# HELP controller_runtime_webhook_requests_in_flight Requests being answered, by path.
# TYPE controller_runtime_webhook_requests_in_flight gauge
controller_runtime_webhook_requests_in_flight{webhook="/ok"} 0
controller_runtime_webhook_requests_in_flight{webhook="/panic"} 0
# HELP controller_runtime_webhook_requests_total Requests by path and HTTP status; a denial is 200.
# TYPE controller_runtime_webhook_requests_total counter
controller_runtime_webhook_requests_total{code="200",webhook="/ok"} 1
controller_runtime_webhook_requests_total{code="200",webhook="/panic"} 0
controller_runtime_webhook_requests_total{code="500",webhook="/ok"} 0
controller_runtime_webhook_requests_total{code="500",webhook="/panic"} 1
# HELP setpoint_webhook_certificate_expires_timestamp_seconds When the certificate being served expires, in Unix time; 0: there is none.
# TYPE setpoint_webhook_certificate_expires_timestamp_seconds gauge
setpoint_webhook_certificate_expires_timestamp_seconds 9.466884e+08
`
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "controller_runtime_webhook_panics_total", "controller_runtime_webhook_requests_in_flight",
			"controller_runtime_webhook_requests_total", "setpoint_webhook_certificate_expires_timestamp_seconds"); err != nil {
			t.Error(err)
		}
		if n, err := testutil.GatherAndCount(registry, "controller_runtime_webhook_latency_seconds"); n != 2 || err != nil {
			t.Errorf("%d latencies: %v", n, err)
		}
		modern.CloseIdleConnections()
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// Requests that run when the server is stopped are answered, within the grace period; new ones are refused.
func TestServerDrains(t *testing.T) {
	for _, test := range []struct {
		why   string
		takes time.Duration
		ok    bool
	}{{"within the grace", 5 * time.Second, true}, {"past it", 15 * time.Second, false}} {
		synctest.Test(t, func(t *testing.T) {
			ca, serving := newPair(t)
			certs := &fixed{}
			certs.set((&keyring{serving: serving}).tls())
			p, stop := startServer(t, Config{Certificates: certs, GracePeriod: 10 * time.Second}, map[string]http.Handler{
				"/slow": Validate(func(ctx context.Context, _ Request[*appsv1.Deployment]) ([]string, error) {
					select {
					case <-time.After(test.takes):
					case <-ctx.Done():
					}
					return nil, ctx.Err()
				}),
			})
			transport := p.transport(ca.cert, 0)
			answered := make(chan error, 1)
			review := recorded(t, "create")
			go func() {
				code, text, err := send(transport, "/slow", review)
				if err == nil && code != 2200 {
					err = errors.New(text)
				}
				answered <- err
			}()
			time.Sleep(time.Second)
			begin := time.Now()
			stopped := make(chan error, 1)
			go func() { stopped <- stop() }()
			synctest.Wait()
			if _, _, err := send(p.transport(ca.cert, 0), "/slow", review); err == nil {
				t.Errorf("%s: a new connection is served while it stops", test.why)
			}
			if err := <-answered; (err == nil) != test.ok {
				t.Errorf("%s: the running request ended with %v", test.why, err)
			}
			if err := <-stopped; err != nil || time.Since(begin) > 10*time.Second+time.Millisecond {
				t.Errorf("%s: it ended with %v after %v", test.why, err, time.Since(begin))
			}
			transport.CloseIdleConnections()
		})
	}
}

func TestServerFindsAllMistakes(t *testing.T) {
	_, err := NewServer(Config{Address: "nine", GracePeriod: -1})
	for _, want := range []string{"nine", "no Certificates", "GracePeriod"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v lacks %q", err, want)
		}
	}
	server, err := NewServer(Config{Certificates: &fixed{}})
	if err != nil {
		t.Fatal(err)
	}
	server.Handle("relative", http.NotFoundHandler())
	server.Handle("/a", http.NotFoundHandler())
	server.Handle("/a", http.NotFoundHandler())
	server.Handle("/nil", nil)
	err = server.Serve(t.Context(), newPipes())
	for _, want := range []string{`"relative"`, "used twice", `"/nil"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v lacks %q", err, want)
		}
	}
	if err := server.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "no Address") {
		t.Errorf("it ran without an address: %v", err)
	}
}

// What certificates fail with ends the server.
type failing struct{ fixed }

func (f *failing) Run(context.Context) error { return errors.New("broken") }

func TestServerEndsWithItsCertificates(t *testing.T) {
	server, err := NewServer(Config{Certificates: &failing{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Serve(t.Context(), newPipes()); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("it ended with %v", err)
	}
}

// write puts a certificate and its key into a folder.
func write(t *testing.T, dir string, pair keyPair) {
	t.Helper()
	key, err := encodeKey(pair.key)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(
		os.MkdirAll(dir, 0o700),
		os.WriteFile(filepath.Join(dir, "tls.crt"), encodeCerts(pair.cert), 0o600),
		os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600),
	); err != nil {
		t.Fatal(err)
	}
}

// Regression for kubernetes-sigs/controller-runtime #2893: a certificate that is
// replaced by a symbolic link that leads elsewhere, as a kubelet does it, or by
// renames is served.
func TestBug2893CertificateIsSwapped(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	must := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		files := NewFiles(certFile, keyFile, slog.New(slog.NewTextHandler(&log, nil)))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- files.Run(ctx) }()
		serves := func(why string, want keyPair) {
			t.Helper()
			time.Sleep(fileInterval)
			synctest.Wait()
			cert, err := files.Certificate()
			if err != nil || !cert.Leaf.Equal(want.cert) {
				t.Fatalf("%s: it does not serve the right certificate: %v", why, err)
			}
		}
		synctest.Wait()
		if _, err := files.Check(); err == nil || !strings.Contains(err.Error(), certFile) {
			t.Errorf("no file is there, and the check says %v", err)
		}

		// As a kubelet does it: tls.crt → ..data/tls.crt, ..data → ..1.
		_, first := newPair(t)
		write(t, filepath.Join(dir, "..1"), first)
		must(os.Symlink("..1", filepath.Join(dir, "..data")), os.Symlink("..data/tls.crt", certFile), os.Symlink("..data/tls.key", keyFile))
		serves("the first", first)
		if _, err := files.Check(); err != nil {
			t.Error(err)
		}

		_, second := newPair(t)
		write(t, filepath.Join(dir, "..2"), second)
		must(os.Symlink("..2", filepath.Join(dir, "..tmp")), os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")), os.RemoveAll(filepath.Join(dir, "..1")))
		serves("a link that leads elsewhere", second)

		// By two renames, looked at in between.
		_, third := newPair(t)
		write(t, filepath.Join(dir, "new"), third)
		must(os.Rename(filepath.Join(dir, "new", "tls.crt"), certFile))
		serves("a certificate without its key yet", second)
		if detail, err := files.Check(); err != nil || !strings.Contains(detail, "not renewed") {
			t.Errorf("check says %q, %v", detail, err)
		}
		must(os.Rename(filepath.Join(dir, "new", "tls.key"), keyFile))
		serves("renamed", third)

		must(os.Remove(certFile))
		serves("the file is gone", third)
		write(t, dir, third)
		serves("it is back", third)
		if detail, err := files.Check(); err != nil || strings.Contains(detail, "not renewed") {
			t.Errorf("check says %q, %v", detail, err)
		}
		write(t, dir, second)
		serves("written in place", second)

		time.Sleep(2 * time.Hour)
		if _, err := files.Check(); err == nil || !strings.Contains(err.Error(), "expired") {
			t.Errorf("it has expired, and the check says %v", err)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if n := strings.Count(log.String(), "not loaded"); n != 3 {
			t.Errorf("%d problems were logged, want 3:\n%s", n, &log)
		}
	})
}
