package setpoint_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/filter"
	"github.com/setpoint-dev/setpoint/internal/apitest"
)

// Regressions of kubernetes-sigs/controller-runtime, by the number of the issue.

// #3218: a runnable that ignores the stop for longer than its grace and then
// fails leaves no goroutine behind. (The bubble
// would not end otherwise.)
func TestBug3218RunnableFailsAfterItsGrace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, apitest.New(), func(c *setpoint.Config) { c.GracePeriod = time.Second })
		r.m.Add(setpoint.Runnable{Name: "deaf", Run: func(context.Context) error {
			time.Sleep(time.Hour)
			return errors.New("too late")
		}})
		r.start()
		stopped := time.Now()
		err := r.end()
		if err == nil || !strings.Contains(err.Error(), "runnable deaf") {
			t.Errorf("Run: %v, want an error that names the runnable", err)
		}
		if took := time.Since(stopped); took > time.Minute {
			t.Errorf("Run took %v to return", took)
		}
		settle(time.Hour) // now it fails
	})
}

// #3406, first half: no reconcile starts before the filters and map functions
// of all sources have seen their first listing.
func TestBug3406NoReconcileBeforeTheFirstListing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps, apitest.Secrets)
		apitest.Put(server, configMap("default", "a"))
		for _, name := range []string{"one", "two", "three"} {
			apitest.Put(server, secret(name))
		}
		r := newRig(t, server)
		seen, ran := 0, false
		setpoint.For[*corev1.ConfigMap](r.m, "patient").Workers(4).
			Watches(&corev1.Secret{}, func(context.Context, client.Object) []setpoint.Request {
				time.Sleep(time.Minute)
				seen++
				return nil
			}).
			Reconcile(func(context.Context, *corev1.ConfigMap) (setpoint.Result, error) {
				ran = true
				if seen != 3 {
					t.Errorf("reconciled after %d of 3 listed secrets were seen", seen)
				}
				return setpoint.Result{}, nil
			})
		r.start()
		settle(time.Hour)
		if !ran {
			t.Error("never reconciled")
		}
	})
}

// #3406, second half: a map function that lists, even its own kind and the
// other's, while the first listing is delivered, does not block the start.
func TestBug3406MapFunctionLists(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps, apitest.Secrets)
		apitest.Put(server, configMap("default", "a"))
		apitest.Put(server, secret("s"))
		r := newRig(t, server)
		ran := &calls{}
		all := func(ctx context.Context, _ client.Object) []setpoint.Request {
			var maps corev1.ConfigMapList
			if err := errors.Join(r.m.Client().List(ctx, &corev1.SecretList{}), r.m.Client().List(ctx, &maps)); err != nil {
				t.Error(err)
			}
			var requests []setpoint.Request
			for i := range maps.Items {
				requests = append(requests, setpoint.RequestFor(&maps.Items[i]))
			}
			return requests
		}
		setpoint.For[*corev1.ConfigMap](r.m, "lists").When(never).
			Watches(&corev1.Secret{}, all).Watches(&corev1.ConfigMap{}, all).
			Reconcile(func(_ context.Context, o *corev1.ConfigMap) (setpoint.Result, error) {
				ran.add(o.Name)
				return setpoint.Result{}, nil
			})
		r.start()
		settle(time.Second)
		if n := ran.of("a"); n != 1 {
			t.Errorf("%d reconciles, want 1\n%s", n, r.logs)
		}
	})
}

// #2983: a kind that is deleted and created again while its controller runs
// brings changes again.
func TestBug2983KindComesBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps)
		r := newRig(t, server)
		ran := &calls{}
		r.counting(ran, setpoint.Result{})
		r.start()
		apitest.Put(server, configMap("default", "a"))
		settle(time.Second)
		gone := func(q apitest.Request) error {
			if q.Resource == "configmaps" {
				return apierrors.NewGenericServerResponse(404, "GET", schema.GroupResource{}, "", "the server could not find the requested resource", 0, true)
			}
			return nil
		}
		server.Intercept(gone)
		server.DropWatches(true)
		settle(time.Hour)
		if _, body := r.get("/readyz?verbose"); !strings.Contains(body, "[+]counting ok: working, but For ConfigMap: the watch is interrupted") {
			t.Errorf("/readyz: %s", body)
		}
		server.Intercept(nil)
		settle(time.Hour)
		apitest.Put(server, configMap("default", "b"))
		settle(time.Second)
		if ran.of("a") != 1 || ran.of("b") != 1 {
			t.Errorf("a ran %d times, b %d; want 1 and 1", ran.of("a"), ran.of("b"))
		}
	})
}

// #214: a namespaced child of a cluster-scoped owner wakes the owner, whose
// request has no namespace; one of another object of that name does not.
func TestBug214ClusterScopedOwner(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.Nodes, apitest.Secrets)
		node := apitest.Put(server, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
		r := newRig(t, server)
		var got []string
		setpoint.For[*corev1.Node](r.m, "nodes").
			When(func(filter.Change) bool { return false }).
			Owns(&corev1.Secret{}).
			Reconcile(func(ctx context.Context, o *corev1.Node) (setpoint.Result, error) {
				got = append(got, setpoint.RequestFor(o).String()+" "+setpoint.Causes(ctx)[0].Object)
				return setpoint.Result{}, nil
			})
		r.start()
		yes := true
		child := secret("child")
		child.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", UID: "another", Controller: &yes}}
		apitest.Put(server, child)
		synctest.Wait()
		if len(got) != 0 {
			t.Errorf("another object's child woke %q", got)
		}
		child.OwnerReferences[0].UID = node.UID
		apitest.Put(server, child)
		settle(time.Second)
		if len(got) != 1 || got[0] != "n default/child" {
			t.Errorf("woke %q, want the node by its child", got)
		}
	})
}

// Found in controller-runtime: an index on a kind that cannot be listed, declared
// before the start, blocked the whole manager for ever. Here it concerns only who
// watches that kind.
func TestBugBIndexOfForbiddenKindBlocksNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps, apitest.Secrets)
		apitest.Put(server, configMap("default", "a"))
		server.Intercept(func(q apitest.Request) error {
			if q.Resource == "secrets" {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", errors.New("no role"))
			}
			return nil
		})
		r := newRig(t, server)
		if err := r.m.Cache().Index(corev1.SchemeGroupVersion.WithKind("Secret"), "type", func(runtime.Object) []string { return nil }); err != nil {
			t.Fatal(err)
		}
		ran := &calls{}
		r.counting(ran, setpoint.Result{})
		r.start()
		settle(time.Second)
		if n := ran.of("a"); n != 1 {
			t.Errorf("%d reconciles, want 1", n)
		}
	})
}
