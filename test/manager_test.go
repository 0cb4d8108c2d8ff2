package test

import (
	"context"
	"sync"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/plane/planetest"
)

// begin runs a manager until stop is called or the test ends, and fails the test when it ends with an error.
func begin(t testing.TB, m *setpoint.Manager) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the manager ended with %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// awaitLeader waits until a replica leads by the lease of that name in the shipped operators' namespace.
func awaitLeader(t testing.TB, c planetest.Cluster, name, identity string) {
	t.Helper()
	held := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "setpoint-system", Name: name}}
	planetest.Wait(t, c, held, func(l *coordinationv1.Lease) bool {
		return l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity == identity
	})
}
