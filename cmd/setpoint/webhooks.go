package main

import (
	"encoding/pem"
	"fmt"
	"net"

	"github.com/setpoint-dev/setpoint/operators/catalog"
	"github.com/setpoint-dev/setpoint/telemetry"
)

// webhooks are where the webhooks of a plane's operators are served: on the loopback address. The certificate and the
// listeners are there before the server is led to them, so that the first request already finds them.
type webhooks struct {
	certificates loopback
	ca           []byte                  // vouches for the certificate, as PEM
	listeners    map[string]net.Listener // by operator; each is closed by who serves on it, and by close
}

// loopback is a certificate for the loopback address.
type loopback struct{ telemetry.SelfSigned }

// Check implements webhook.Certificates.
func (*loopback) Check() (detail string, err error) { return "", nil }

// listen gives each operator with webhooks a listener.
func (w *webhooks) listen(operators []catalog.Operator) error {
	cert, err := w.certificates.Certificate()
	if err != nil {
		return err
	}
	w.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})
	w.listeners = map[string]net.Listener{}
	for _, o := range operators {
		if !o.HasWebhooks() {
			continue
		}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return fmt.Errorf("serving the webhooks of the operator %s: %w", o.Name, err)
		}
		w.listeners[o.Name] = listener
	}
	return nil
}

// url is where an operator's webhooks are served; empty when it has none.
func (w *webhooks) url(operator string) string {
	if listener := w.listeners[operator]; listener != nil {
		return "https://" + listener.Addr().String()
	}
	return ""
}

func (w *webhooks) close() {
	for _, listener := range w.listeners {
		listener.Close()
	}
}
