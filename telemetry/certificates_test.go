package telemetry_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/telemetry"
)

// A self-signed certificate stays the same until it gets old, and is good for the
// loopback address.
func TestSelfSigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		certs := &telemetry.SelfSigned{}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- certs.Run(ctx) }()
		first, err := certs.Certificate()
		if err != nil {
			t.Fatal(err)
		}
		pool := x509.NewCertPool()
		pool.AddCert(first.Leaf)
		for _, host := range []string{"127.0.0.1", "::1", "localhost"} {
			if _, err := first.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: pool}); err != nil {
				t.Errorf("%s: %v", host, err)
			}
		}
		for _, step := range []struct {
			after time.Duration
			same  bool
		}{{240 * 24 * time.Hour, true}, {5 * 24 * time.Hour, false}} {
			time.Sleep(step.after)
			now, err := certs.Certificate()
			if err != nil || (now == first) != step.same {
				t.Errorf("%+v: %v", step, err)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// brokenCertificates have none.
type brokenCertificates struct{ telemetry.SelfSigned }

func (*brokenCertificates) Certificate() (*tls.Certificate, error) {
	return nil, errors.New("none yet")
}

func TestWithTLS(t *testing.T) {
	for _, certs := range []telemetry.Certificates{&telemetry.SelfSigned{}, &brokenCertificates{}} {
		p := pipes{conns: make(chan net.Conn, 1), closed: make(chan struct{})}
		ours, theirs := net.Pipe()
		p.conns <- theirs
		conn, err := telemetry.WithTLS(p, certs).Accept()
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() {
			err := conn.(*tls.Conn).HandshakeContext(t.Context())
			conn.Close()
			served <- err
		}()
		client := tls.Client(ours, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12})
		errClient := client.HandshakeContext(t.Context())
		ours.Close()
		_, broken := certs.(*brokenCertificates)
		if err := <-served; (err != nil) != broken || (errClient != nil) != broken {
			t.Errorf("%T: %v, %v", certs, err, errClient)
		}
	}
}
