package servers

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// Peer is a folder with the programs etcd and kube-apiserver.
type Peer struct{ dir string }

// modules says what is built, at which versions.
const modules = `module peer

go 1.26.0

require (
	go.etcd.io/etcd/server/v3 v3.7.3
	k8s.io/kubernetes v1.37.2
%s)
`

const imports = `//go:build never

package peer

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
)
`

// Build builds etcd and kube-apiserver from their modules into the user's cache folder, unless they are there already, and
// says on progress how long that took. planeModule is the go.mod that pins Kubernetes' staging modules.
func Build(ctx context.Context, planeModule string, progress io.Writer) (*Peer, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cache, "setpoint", "peer-1.37.2")
	p := &Peer{dir}
	if _, err := os.Stat(p.program("kube-apiserver")); err == nil {
		return p, nil
	}
	pins, err := stagingPins(planeModule)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	for name, text := range map[string]string{"go.mod": fmt.Sprintf(modules, pins), "imports.go": imports} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	begin := time.Now()
	fmt.Fprintln(progress, "building etcd and kube-apiserver (about ten minutes on two cores the first time; -no-kube-apiserver leaves them out)")
	for _, args := range [][]string{
		{"mod", "tidy"},
		{"build", "-ldflags=-s -w", "-o", "etcd", "go.etcd.io/etcd/server/v3"},
		{"build", "-ldflags=-s -w", "-o", "kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"},
	} {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	fmt.Fprintf(progress, "  built in %d s\n", int(time.Since(begin).Seconds()))
	return p, nil
}

// stagingPins returns the lines of a go.mod that require Kubernetes' staging modules.
func stagingPins(planeModule string) (string, error) {
	data, err := os.ReadFile(planeModule)
	if err != nil {
		return "", fmt.Errorf("reading the versions of Kubernetes' modules: %w", err)
	}
	var pins strings.Builder
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "\tk8s.io/") && strings.Contains(line, " v0.37.") {
			pins.WriteString(line)
		}
	}
	return pins.String(), nil
}

// Dir is the folder that holds the programs.
func (p *Peer) Dir() string { return p.dir }

func (p *Peer) program(name string) string { return filepath.Join(p.dir, name) }

const token = "bench" // of a server that listens on the loopback interface for seconds

// start runs etcd and kube-apiserver as envtest does and waits until the latter is ready.
func (p *Peer) start(ctx context.Context) (*server, error) {
	dir, err := os.MkdirTemp("", "setpoint-bench-")
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	if err := writeCredentials(dir); err != nil {
		return nil, err
	}
	client, peer := "http://127.0.0.1:"+ports[0], "http://127.0.0.1:"+ports[1]
	in := func(name string) string { return filepath.Join(dir, name) }
	etcd := exec.CommandContext(ctx, p.program("etcd"), "--unsafe-no-fsync", "--data-dir", in("etcd"), "--log-level", "error",
		"--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
		"--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
	apiserver := exec.CommandContext(ctx, p.program("kube-apiserver"), "--etcd-servers", client, "--cert-dir", in("certs"),
		"--bind-address", "127.0.0.1", "--secure-port", ports[2], "--token-auth-file", in("tokens"),
		"--service-account-issuer", "https://127.0.0.1:"+ports[2], "--service-account-key-file", in("key.pem"),
		"--service-account-signing-key-file", in("key.pem"), "--service-cluster-ip-range", "10.0.0.0/24",
		"--authorization-mode", "RBAC", "--disable-admission-plugins", "ServiceAccount", "-v", "0")
	begin := time.Now()
	for _, cmd := range []*exec.Cmd{etcd, apiserver} {
		if err := cmd.Start(); err != nil {
			return nil, fmt.Errorf("starting %s: %w", cmd.Path, err)
		}
	}
	s := &server{
		dir:  dir,
		pids: []int{etcd.Process.Pid, apiserver.Process.Pid},
		config: &rest.Config{
			Host: "https://127.0.0.1:" + ports[2], BearerToken: token, QPS: -1, TLSClientConfig: rest.TLSClientConfig{Insecure: true},
		},
		stop: func() error {
			// kube-apiserver takes long to stop in order, and nothing is kept.
			err := errors.Join(apiserver.Process.Kill(), etcd.Process.Kill())
			_, _ = apiserver.Process.Wait()
			_, _ = etcd.Process.Wait()
			return errors.Join(err, os.RemoveAll(dir))
		},
	}
	if err := waitReady(ctx, s.config); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	s.ready = time.Since(begin)
	return s, nil
}

// Run runs etcd and kube-apiserver as long as use does. It gives it the administrator's access, the certificate that the
// server shows and the key that signs ServiceAccounts' tokens.
func (p *Peer) Run(ctx context.Context, use func(config *rest.Config, certificate []byte, tokenKey crypto.Signer) error) error {
	s, err := p.start(ctx)
	if err != nil {
		return err
	}
	certificate, err := os.ReadFile(filepath.Join(s.dir, "certs", "apiserver.crt"))
	if err != nil {
		return errors.Join(err, s.stop())
	}
	encoded, err := os.ReadFile(filepath.Join(s.dir, "key.pem"))
	if err != nil {
		return errors.Join(err, s.stop())
	}
	block, _ := pem.Decode(encoded)
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return errors.Join(err, s.stop())
	}
	return errors.Join(use(s.config, certificate, key), s.stop())
}

// writeCredentials writes the key that signs ServiceAccounts' tokens, and the administrator's token.
func writeCredentials(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	encoded := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "key.pem"), encoded, 0o600),
		os.WriteFile(filepath.Join(dir, "tokens"), []byte(token+",admin,admin,system:masters\n"), 0o600),
	)
}

// freePorts returns ports of the loopback interface that nobody listens on.
func freePorts(n int) ([]string, error) {
	var ports []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // after all are chosen, so that they differ
		_, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}

func waitReady(ctx context.Context, config *rest.Config) error {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/readyz", nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		if ctx.Err() != nil {
			return fmt.Errorf("kube-apiserver is not ready within a minute: %w", err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
