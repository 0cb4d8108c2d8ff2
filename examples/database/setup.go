package database

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
)

// Setup adds the operator to a manager whose scheme knows Database.
func Setup(m *setpoint.Manager) {
	r := &reconciler{client: m.Client()}
	setpoint.For[*Database](m, "database").
		Owns(&corev1.Secret{}).
		Owns(&corev1.ConfigMap{}).
		Owns(&appsv1.StatefulSet{}).
		Owns(&corev1.Service{}).
		Watches(&corev1.Pod{}, databaseOf).
		Reconcile(r.reconcile)
}

// databaseOf names the Database of an instance's Pod.
func databaseOf(_ context.Context, pod client.Object) []setpoint.Request {
	name := pod.GetLabels()[nameLabel]
	if name == "" {
		return nil
	}
	return []setpoint.Request{{Namespace: pod.GetNamespace(), Name: name}}
}
