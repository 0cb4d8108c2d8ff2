package setpoint_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/internal/apitest"
)

// RateLimit spaces all reconciles of a controller, after a burst, over all
// workers, and a rest earns a new burst but no more.
func TestRateLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps)
		r := newRig(t, server)
		var mu sync.Mutex
		var at []time.Duration
		start := time.Now()
		setpoint.For[*corev1.ConfigMap](r.m, "calls-out").
			Workers(3).
			RateLimit(2, 4).
			Reconcile(func(context.Context, *corev1.ConfigMap) (setpoint.Result, error) {
				mu.Lock()
				defer mu.Unlock()
				at = append(at, time.Since(start))
				return setpoint.Result{}, nil
			})
		for n := range 7 {
			apitest.Put(server, configMap("default", fmt.Sprint("listed", n)))
		}
		r.start()
		settle(time.Minute)
		for n := range 6 {
			apitest.Put(server, configMap("default", fmt.Sprint("fresh", n)))
		}
		settle(time.Minute)
		ms := time.Millisecond
		want := []time.Duration{0, 0, 0, 0, 500 * ms, 1000 * ms, 1500 * ms}
		for _, d := range []time.Duration{0, 0, 0, 0, 500 * ms, 1000 * ms} {
			want = append(want, time.Minute+d)
		}
		if !slices.Equal(at, want) {
			t.Errorf("reconciled at\n%v, want\n%v", at, want)
		}
	})
}
