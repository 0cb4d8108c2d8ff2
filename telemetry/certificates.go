package telemetry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/keypair"
)

// Certificates is where the certificate of a server comes from: SelfSigned, or
// files and authorities of the package webhook.
type Certificates interface {
	// Run keeps the certificate fresh until ctx ends. It returns nil then.
	Run(ctx context.Context) error
	// Certificate returns the present certificate, or why there is none. It does
	// not block.
	Certificate() (*tls.Certificate, error)
}

// The times of a self-signed certificate.
const (
	selfSignedLife = 365 * 24 * time.Hour
	selfSignedSkew = 5 * time.Minute // for clients whose clock is behind
)

// SelfSigned is a certificate that vouches for itself: it keeps tokens from being
// read on their way, but clients cannot tell the server from an impostor, unless
// they are handed the certificate. It is made in memory when it is first needed,
// and anew when two thirds of its year are over.
type SelfSigned struct {
	mu   sync.Mutex
	cert *tls.Certificate
}

// Run implements Certificates.
func (s *SelfSigned) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Certificate implements Certificates.
func (s *SelfSigned) Certificate() (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.cert != nil && s.cert.Leaf.NotAfter.Sub(now) > selfSignedLife/3 {
		return s.cert, nil
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "setpoint metrics"},
		NotBefore:             now.Add(-selfSignedSkew),
		NotAfter:              now.Add(selfSignedLife),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		DNSNames:              []string{"localhost"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	if host, err := os.Hostname(); err == nil {
		template.DNSNames = append(template.DNSNames, host)
	}
	cert, key, err := keypair.New(template, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("make a self-signed certificate: %w", err)
	}
	s.cert = &tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}
	return s.cert, nil
}

// WithTLS returns listener over TLS 1.2 or later. Until there is a certificate,
// handshakes fail.
func WithTLS(listener net.Listener, certs Certificates) net.Listener {
	return tls.NewListener(listener, &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certs.Certificate() },
	})
}
