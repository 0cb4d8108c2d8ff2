package memcached

import (
	"context"
	_ "embed"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint"
	v1 "github.com/setpoint-dev/setpoint/operators/memcached/v1"
	"github.com/setpoint-dev/setpoint/webhook"
)

//go:embed manifests/webhooks.yaml
var webhooks string

//go:embed manifests/webhooks-rbac.yaml
var webhooksRBAC string

// The objects that lead API servers to the webhooks. They are in setpoint-system unless they have no namespace.
const (
	webhookNamespace      = "setpoint-system"
	webhookService        = "setpoint-memcached-webhooks" // the Secret's name, too
	webhookConfigurations = "setpoint-memcached"
	crdName               = "memcacheds.cache.setpoint.dev"
)

// WebhookRBAC returns, as YAML, what the ServiceAccount of RBAC needs to be allowed beyond that to serve the webhooks.
func WebhookRBAC() string { return webhooksRBAC }

// WebhookManifests returns, as YAML, what leads API servers to the webhooks: the CustomResourceDefinition, which takes the
// place of CRD and serves v1alpha1, too, and the webhooks' configurations. They lead to the base URL, such as
// https://127.0.0.1:9443, or if that is empty to a Service in the namespace setpoint-system, which is then among them. The
// CA, as PEM, vouches for what answers there; with none the operator puts in its own.
func WebhookManifests(url string, ca []byte) (string, error) {
	documents := []string{crd}
	for document := range strings.SplitSeq(webhooks, "\n---\n") {
		documents = append(documents, document)
	}
	var out []string
	for _, document := range documents {
		var obj map[string]any
		if err := yaml.Unmarshal([]byte(document), &obj); err != nil {
			return "", fmt.Errorf("manifests of the operator %s: %w", Name, err)
		}
		switch obj["kind"] {
		case "CustomResourceDefinition":
			convert(obj["spec"].(map[string]any))
			leadTo(url, ca, obj["spec"].(map[string]any)["conversion"].(map[string]any)["webhook"].(map[string]any))
		case "Service":
			if url != "" {
				continue
			}
		default:
			for _, hook := range obj["webhooks"].([]any) {
				leadTo(url, ca, hook.(map[string]any))
			}
		}
		text, err := yaml.Marshal(obj)
		if err != nil {
			return "", fmt.Errorf("manifests of the operator %s: %w", Name, err)
		}
		out = append(out, string(text))
	}
	return strings.Join(out, "---\n"), nil
}

// convert has all versions of a CustomResourceDefinition served, by the webhook.
func convert(spec map[string]any) {
	for _, version := range spec["versions"].([]any) {
		version.(map[string]any)["served"] = true
	}
	spec["conversion"] = map[string]any{"strategy": "Webhook", "webhook": map[string]any{
		"conversionReviewVersions": []any{"v1"},
		"clientConfig": map[string]any{"service": map[string]any{
			"namespace": webhookNamespace, "name": webhookService, "path": webhook.ConvertPath,
		}},
	}}
}

// leadTo replaces the Service that a webhook leads to by the URL, unless that is empty, and says which CA vouches for it.
func leadTo(url string, ca []byte, hook map[string]any) {
	config := hook["clientConfig"].(map[string]any)
	if url != "" {
		config = map[string]any{"url": url + config["service"].(map[string]any)["path"].(string)}
	}
	if ca != nil {
		config["caBundle"] = base64.StdEncoding.EncodeToString(ca)
	}
	hook["clientConfig"] = config
}

// WebhookOptions say where the webhooks are served.
type WebhookOptions struct {
	// Listener is where they are served; the server closes it. Nil: Address is listened on.
	Listener net.Listener
	// Address is a "host:port" as of webhook.Config. It is not used with a Listener.
	Address string
	// Certificates are what they are served with. Nil: the operator makes some, and keeps them in a Secret.
	Certificates webhook.Certificates
	// Hosts are the names in the certificates that the operator makes, by which API servers reach the webhooks. Empty: that
	// of the Service of WebhookManifests.
	Hosts []string
	// Namespace is that of the Secret. Empty: setpoint-system.
	Namespace string
	// GracePeriod is what running requests get to end at a stop. Zero: 30 seconds.
	GracePeriod time.Duration
	// Logger may be nil.
	Logger *slog.Logger
}

// Webhooks adds the operator's webhooks to a manager: defaults and validation of v1, and the conversion of v1alpha1. They
// are served by every replica. The server that is returned says by Check whether they can be reached.
func Webhooks(m *setpoint.Manager, o WebhookOptions) (*webhook.Server, error) {
	certificates, err := o.certificates(m)
	if err != nil {
		return nil, fmt.Errorf("webhooks of the operator %s: %w", Name, err)
	}
	server, err := webhook.NewServer(webhook.Config{
		Address: o.Address, Certificates: certificates, Logger: o.Logger, Metrics: m.Metrics(), GracePeriod: o.GracePeriod,
	})
	if err != nil {
		return nil, fmt.Errorf("webhooks of the operator %s: %w", Name, err)
	}
	converter, err := webhook.NewConverter(m.Client().Scheme(), webhook.Convert(alphaToHub, hubToAlpha))
	if err != nil {
		return nil, fmt.Errorf("webhooks of the operator %s: %w", Name, err)
	}
	kind := v1.GroupVersion.WithKind("Memcached")
	server.Handle(webhook.MutatePath(kind), webhook.Mutate(setDefaults))
	server.Handle(webhook.ValidatePath(kind), webhook.Validate(validate))
	server.Handle(webhook.ConvertPath, converter)
	m.Add(setpoint.Runnable{Name: Name + " webhooks", Standby: true, Check: server.Check, Run: func(ctx context.Context) error {
		if o.Listener != nil {
			return server.Serve(ctx, o.Listener)
		}
		return server.Run(ctx)
	}})
	return server, nil
}

// certificates returns those given, or ones that the operator makes and has API servers trust.
func (o WebhookOptions) certificates(m *setpoint.Manager) (webhook.Certificates, error) {
	if o.Certificates != nil {
		return o.Certificates, nil
	}
	if o.Namespace == "" {
		o.Namespace = webhookNamespace
	}
	if len(o.Hosts) == 0 {
		o.Hosts = []string{webhookService + "." + o.Namespace + ".svc"}
	}
	return webhook.NewAuthority(webhook.AuthorityConfig{
		Client: m.Client(), Namespace: o.Namespace, Name: webhookService, Hosts: o.Hosts,
		Mutating: []string{webhookConfigurations}, Validating: []string{webhookConfigurations}, CRDs: []string{crdName},
		Logger: o.Logger,
	})
}
