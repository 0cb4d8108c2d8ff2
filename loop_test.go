package setpoint_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/internal/apitest"
	"github.com/setpoint-dev/setpoint/owner"
)

// A reconciler that wakes itself by its own writes is reported; one that comes
// to rest is not.
func TestLaw12LoopIsReported(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps)
		apitest.Put(server, configMap("default", "loop"))
		apitest.Put(server, configMap("default", "rest"))
		r := newRig(t, server)
		ran := &calls{}
		setpoint.For[*corev1.ConfigMap](r.m, "self").
			Reconcile(func(ctx context.Context, o *corev1.ConfigMap) (setpoint.Result, error) {
				n := ran.add(o.Name)
				if n > 40 || o.Name == "rest" && n > 3 {
					return setpoint.Result{}, nil
				}
				o.Data = map[string]string{"n": fmt.Sprint(n)}
				return setpoint.Result{}, r.m.Client().Update(ctx, o)
			})
		r.start()
		settle(time.Hour)
		log := r.logs.String()
		if n := strings.Count(log, "the reconciler wakes itself"); n != 2 { // after 10 and after 20
			t.Errorf("%d reports, want 2\n%s", n, log)
		}
		if !strings.Contains(log, `objects="ConfigMap default/loop" fields=data.n`) || strings.Contains(log, `objects="ConfigMap default/rest"`) {
			t.Errorf("log:\n%s", log)
		}
		if got := r.metric("setpoint_self_triggered_reconciles_total"); got != `setpoint_self_triggered_reconciles_total{controller="self"} 43` {
			t.Error(got)
		}
	})
}

// Endless creation is a loop, too, although each object is a new one.
func TestLaw12LoopOfGeneratedNamesIsReported(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps, apitest.Secrets)
		apitest.Put(server, configMap("default", "loop"))
		r := newRig(t, server)
		ran := &calls{}
		setpoint.For[*corev1.ConfigMap](r.m, "self").
			Owns(&corev1.Secret{}).
			Reconcile(func(ctx context.Context, o *corev1.ConfigMap) (setpoint.Result, error) {
				if ran.add(o.Name) > 15 {
					return setpoint.Result{}, nil
				}
				child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, GenerateName: "loop-"}}
				return setpoint.Result{}, errors.Join(owner.SetController(o, child, r.m.Client().Scheme()), r.m.Client().Create(ctx, child))
			})
		r.start()
		settle(time.Hour)
		if n := server.Count(apitest.Secrets); n != 15 {
			t.Errorf("%d Secrets were made, want 15", n)
		}
		log := r.logs.String()
		if strings.Count(log, "the reconciler wakes itself") != 1 || !strings.Contains(log, `objects="Secret default/loop-*"`) {
			t.Errorf("log:\n%s", log)
		}
	})
}

// A replica that loses its lease forgets what it suspected: the take-over that
// follows is no loop.
func TestLaw12LossOfTheLeaseEndsALoop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps, apitest.Leases)
		apitest.Put(server, configMap("default", "busy"))
		r := newRig(t, server, elected("a"))
		ran := &calls{}
		setpoint.For[*corev1.ConfigMap](r.m, "busy").
			Reconcile(func(ctx context.Context, o *corev1.ConfigMap) (setpoint.Result, error) {
				n := ran.add(o.Name)
				if n > 40 {
					return setpoint.Result{}, nil
				}
				o.Data = map[string]string{"n": fmt.Sprint(n)}
				err := r.m.Client().Update(ctx, o)
				if n%5 == 0 {
					server.Delete(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "test"}})
					<-ctx.Done()
				}
				return setpoint.Result{}, err
			})
		r.start()
		settle(time.Hour)
		if ran.of("busy") < 40 {
			t.Errorf("it ran %d times, want more than 40", ran.of("busy"))
		}
		if log := r.logs.String(); strings.Contains(log, "the reconciler wakes itself") {
			t.Errorf("log:\n%s", log)
		}
	})
}
