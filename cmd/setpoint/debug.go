package main

import (
	"context"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/lease"
	"github.com/setpoint-dev/setpoint/operators/catalog"
	"github.com/setpoint-dev/setpoint/telemetry"
)

// The debug endpoints of a plane's operators are served together, on the loopback address and over TLS, to those whom the
// plane allows it: whoever has the plane's kubeconfig can ask for a token of debugAccount, as `setpoint why` does.

// debugAccount is the ServiceAccount that may read the debug endpoints of a plane's operators.
const debugAccount = "setpoint-debug"

// debugRights makes the ServiceAccount and its rights.
const debugRights = `
apiVersion: v1
kind: ServiceAccount
metadata:
  namespace: ` + catalog.Namespace + `
  name: ` + debugAccount + `
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: ` + debugAccount + `
rules:
- nonResourceURLs: [/metrics, /debug/setpoint, /debug/setpoint/*]
  verbs: [get]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: ` + debugAccount + `
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: ` + debugAccount + `
subjects:
- kind: ServiceAccount
  namespace: ` + catalog.Namespace + `
  name: ` + debugAccount + `
`

// debugRecord says in a plane's record where the debug endpoints are.
type debugRecord struct {
	URL         string   `json:"url"`         // an operator's endpoint is below it, at the operator's name
	Certificate []byte   `json:"certificate"` // of the server, as PEM
	Operators   []string `json:"operators"`
}

// debugServer serves the debug endpoints.
type debugServer struct {
	listener net.Listener // over TLS
	handler  http.Handler
}

// newDebugServer listens for the operators, whose managers are given in the same order. Who may read is asked of the
// server of config.
func newDebugServer(operators []catalog.Operator, managers []*setpoint.Manager, config *rest.Config, client *http.Client, logger *slog.Logger) (*debugServer, *debugRecord, error) {
	guard, err := telemetry.NewGuard(config, client, logger)
	if err != nil {
		return nil, nil, err
	}
	certs := &telemetry.SelfSigned{}
	cert, err := certs.Certificate()
	if err != nil {
		return nil, nil, err
	}
	mux := http.NewServeMux()
	record := &debugRecord{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})}
	for i, o := range operators {
		mux.Handle("/"+o.Name+"/", http.StripPrefix("/"+o.Name, guard.Wrap(managers[i].Handler())))
		record.Operators = append(record.Operators, o.Name)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, fmt.Errorf("serving the debug endpoints: %w", err)
	}
	record.URL = "https://" + listener.Addr().String()
	return &debugServer{listener: telemetry.WithTLS(listener, certs), handler: mux}, record, nil
}

// makeManagers makes what runs the operators, and where their debug endpoints are served.
func (u *session) makeManagers(context.Context) error {
	for _, o := range u.operators {
		logger := u.logger.With("operator", o.Name)
		config := asOperator(u.config, o)
		config.Wrap(logRequests(logger))
		m, err := o.Manager(setpoint.Config{
			REST:           config,
			Logger:         logger,
			LeaderElection: &lease.Config{},
			GracePeriod:    operatorGrace,
			Debug:          true,
		}, catalog.Place{WebhookListener: u.webhooks.listeners[o.Name], WebhookCertificates: &u.webhooks.certificates})
		if err != nil {
			return err
		}
		u.managers = append(u.managers, m)
	}
	if len(u.managers) == 0 {
		return nil
	}
	var err error
	u.debug, u.record.Debug, err = newDebugServer(u.operators, u.managers, u.config, u.client, u.logger)
	return err
}
