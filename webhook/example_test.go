package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/webhook"
)

// A program with a controller's manager and two webhooks of Deployments. Every
// replica serves them; the certificates are made, rotated and injected by the
// program itself.
func Example() {
	m, err := setpoint.NewManager(setpoint.Config{FieldOwner: "guard"})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	authority, err := webhook.NewAuthority(webhook.AuthorityConfig{
		Client:     m.Client(),
		Name:       "guard-webhooks",                   // the Secret, in the Pod's namespace
		Hosts:      []string{"guard.guard-system.svc"}, // the Service
		Validating: []string{"guard"},
		Mutating:   []string{"guard"},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	server, err := webhook.NewServer(webhook.Config{
		Address:      "0.0.0.0:9443",
		Certificates: authority,
		Metrics:      m.Metrics(),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	deployment := appsv1.SchemeGroupVersion.WithKind("Deployment")
	server.Handle(webhook.MutatePath(deployment), webhook.Mutate(setDefaults))
	server.Handle(webhook.ValidatePath(deployment), webhook.Validate(validate))
	m.Add(setpoint.Runnable{Name: "webhooks", Run: server.Run, Standby: true, Check: server.Check})
	if err := m.Run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

func setDefaults(_ context.Context, r webhook.Request[*appsv1.Deployment]) error {
	if r.Object.Spec.RevisionHistoryLimit == nil {
		limit := int32(3)
		r.Object.Spec.RevisionHistoryLimit = &limit
	}
	return nil
}

func validate(_ context.Context, r webhook.Request[*appsv1.Deployment]) (warnings []string, err error) {
	if r.Object == nil { // a deletion
		if r.Old.Labels["keep"] == "true" {
			return nil, errors.New("it is to be kept: remove its label first")
		}
		return nil, nil
	}
	if replicas := r.Object.Spec.Replicas; replicas != nil && *replicas > 50 {
		return nil, field.Invalid(field.NewPath("spec", "replicas"), *replicas, "more than 50")
	}
	if r.Object.Labels["team"] == "" {
		warnings = append(warnings, "the label team says whom to ask")
	}
	return warnings, nil
}
