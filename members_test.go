package setpoint_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint"
)

// What runs when its cluster is removed gets its grace, and what ignores even the
// end of its context is named and keeps the name of the cluster.
func TestRemovalAwaitsReconciles(t *testing.T) {
	for _, test := range []struct {
		name      string
		takes     time.Duration
		heeds     bool // the end of its context
		hurry     time.Duration
		wantAfter time.Duration
		wantErr   string
		wantCause string
	}{
		{name: "ends in time", takes: 3 * time.Second, heeds: true, wantAfter: 3 * time.Second},
		{name: "is cancelled", takes: time.Hour, heeds: true, wantAfter: 10 * time.Second, wantCause: "the cluster was removed"},
		{name: "is cancelled sooner", takes: time.Hour, heeds: true, hurry: time.Second, wantAfter: time.Second, wantCause: "the cluster was removed"},
		{name: "ignores it", takes: time.Hour, wantAfter: 15 * time.Second, wantErr: `remove cluster "a": this still runs: worker of controller slow in cluster a`},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := withMembers(t, map[string]*line{"a": newLine("x")}, func(c *setpoint.Config) { c.GracePeriod = 10 * time.Second })
				var cause error
				setpoint.For[*corev1.ConfigMap](r.m, "slow").
					In(setpoint.MemberClusters).
					Reconcile(func(ctx context.Context, o *corev1.ConfigMap) (setpoint.Result, error) {
						if !test.heeds {
							time.Sleep(test.takes)
							return setpoint.Result{}, nil
						}
						select {
						case <-ctx.Done():
							cause = context.Cause(ctx)
						case <-time.After(test.takes):
						}
						return setpoint.Result{}, ctx.Err()
					})
				r.start()
				ctx := context.Background()
				if test.hurry > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.hurry)
					defer cancel()
				}
				began := time.Now()
				err := r.m.RemoveCluster(ctx, "a")
				if took := time.Since(began); took != test.wantAfter {
					t.Errorf("it took %v, want %v", took, test.wantAfter)
				}
				if fmt.Sprint(cause) != "<nil>" && !strings.HasPrefix(cause.Error(), test.wantCause) && !strings.Contains(cause.Error(), test.wantCause) || (cause == nil) != (test.wantCause == "") {
					t.Errorf("cause %v, want %q", cause, test.wantCause)
				}
				if test.wantErr == "" {
					if err != nil {
						t.Error(err)
					}
					return
				}
				if err == nil || err.Error() != test.wantErr {
					t.Errorf("error %v, want %s", err, test.wantErr)
				}
				if err := r.m.AddCluster("a", newLine("x").clusterConfig()); err == nil || !strings.Contains(err.Error(), "of the removed cluster of that name this still runs") {
					t.Errorf("the name was free again: %v", err)
				}
				settle(time.Hour)
				r.add("a", newLine())
			})
		})
	}
}

// Members stop with the manager: their reconciles get their grace, too.
func TestMembersStopWithTheManager(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := withMembers(t, map[string]*line{"a": newLine("x")})
		ended := false
		setpoint.For[*corev1.ConfigMap](r.m, "slow").
			In(setpoint.MemberClusters).
			Reconcile(func(ctx context.Context, o *corev1.ConfigMap) (setpoint.Result, error) {
				time.Sleep(10 * time.Second)
				ended = ctx.Err() == nil
				return setpoint.Result{}, setpoint.ClusterOf(ctx).Client().Create(ctx, secret("last"))
			})
		r.start()
		settle(time.Second)
		if err := r.end(); err != nil {
			t.Error(err)
		}
		if !ended {
			t.Error("the reconcile got no grace")
		}
		if err := r.m.AddCluster("b", newLine().clusterConfig()); err == nil || !strings.Contains(err.Error(), "stopping") {
			t.Errorf("a cluster was added to a manager that has stopped: %v", err)
		}
	})
}

// What is wrong with a cluster is said when it is added.
func TestAddClusterErrors(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := withMembers(t, map[string]*line{"a": newLine()})
		ok := newLine().clusterConfig()
		for _, test := range []struct {
			name string
			cfg  setpoint.ClusterConfig
			want string
		}{
			{"", ok, "the empty name is the manager's own cluster's"},
			{"A:b", ok, "the name is invalid: "},
			{"a", ok, "there is a cluster of that name already; remove it first"},
			{"b", setpoint.ClusterConfig{}, "ClusterConfig.REST is missing"},
		} {
			if err := r.m.AddCluster(test.name, test.cfg); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("AddCluster(%q): %v, want %s", test.name, err, test.want)
			}
		}
		for _, name := range []string{"", "b"} {
			if err := r.m.RemoveCluster(t.Context(), name); err == nil || !strings.Contains(err.Error(), "not one of those that were added") {
				t.Errorf("RemoveCluster(%q): %v", name, err)
			}
		}
		r.add("b", newLine()) // the name is free, since what failed left nothing
		r.remove("b")
		r.m.EveryCluster(func(c *setpoint.Cluster) error {
			if c.Name() != "" {
				return fmt.Errorf("no index in %q", c.Name())
			}
			return nil
		})
		if err := r.m.AddCluster("c", ok); err == nil || err.Error() != `add cluster "c": no index in "c"` {
			t.Error(err)
		}
		if err := r.m.Run(t.Context()); err == nil || !strings.Contains(err.Error(), `cluster "a": no index in "a"`) {
			t.Errorf("Run: %v", err)
		}
		r.remove("a")
	})
}

// A cluster that hangs at discovery, whose requests have no context, is removed as
// soon as any other; what is removed is freed.
func TestRemovalOfAHungClusterFreesIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hung := newLine("x")
		hung.set(func(l *line) { l.hangs = true })
		r := withMembers(t, nil)
		ran := &calls{}
		r.touring(ran)
		r.start()
		cfg := hung.clusterConfig()
		cfg.Mapper = nil
		if err := r.m.AddCluster("hung", cfg); err != nil {
			t.Fatal(err)
		}
		settle(time.Second)
		kept := weak.Make(r.m.Cluster("hung"))
		began := time.Now()
		r.remove("hung")
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v although no reconcile runs", took)
		}
		cfg = setpoint.ClusterConfig{}
		runtime.GC()
		if kept.Value() != nil {
			t.Error("the removed cluster is still in memory")
		}
	})
}
