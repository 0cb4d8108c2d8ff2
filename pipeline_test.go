package setpoint_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/internal/apitest"
)

func TestFirstProgram(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps, apitest.Secrets)
		apitest.Put(server, configMap("default", "a"))
		r := newRig(t, server)
		setpoint.For[*corev1.ConfigMap](r.m, "copy").
			Owns(&corev1.Secret{}).
			Reconcile(func(ctx context.Context, cm *corev1.ConfigMap) (setpoint.Result, error) {
				secret := &corev1.Secret{}
				secret.Namespace, secret.Name = cm.Namespace, cm.Name
				return setpoint.Result{}, r.m.Client().Create(ctx, secret)
			})
		r.start()
		settle(time.Second)
		if n := server.Count(apitest.Secrets); n != 1 {
			t.Errorf("%d secrets, want 1\n%s", n, r.logs)
		}
	})
}
