// Package pipeline measures a whole controller beside controller-runtime's, on the same plane in the same process: from start to
// all reconciled, and from a change at the server to the start of its reconcile.
package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/bench/filled"
	"github.com/setpoint-dev/setpoint/bench/pods"
	"github.com/setpoint-dev/setpoint/bench/report"
)

// workers is how many reconciles run at once in both controllers.
const workers = 4

// run runs a controller of Pods that reads its Pod from the cache and then calls seen, until ctx ends. The change of a Pod
// is told apart by its label "change".
type run func(ctx context.Context, config *rest.Config, seen func(types.NamespacedName, string)) error

// MeasureSync measures how long it takes from the start of a manager until n Pods were reconciled.
func MeasureSync(ctx context.Context, n int) (report.Result, error) {
	p, err := filled.Start(ctx, n)
	if err != nil {
		return report.Result{}, err
	}
	defer p.Stop()
	server, err := listTime(ctx, p.RESTConfig())
	if err != nil {
		return report.Result{}, err
	}
	best := map[string]time.Duration{}
	for range 3 {
		for name, c := range contenders() {
			took, err := syncTime(ctx, p.RESTConfig(), n, c)
			if err != nil {
				return report.Result{}, fmt.Errorf("%s: %w", name, err)
			}
			if best[name] == 0 || took < best[name] {
				best[name] = took
			}
		}
	}
	note := fmt.Sprintf("%d Pods, %d workers, best of 3; of both, the server's answer to one LIST takes %d ms", n, workers, server.Milliseconds())
	return report.Cost("sync-10k-pods", "ms", ms(best["setpoint"])).Against(ms(best["peer"]), note).AtLeastRatio(2), nil
}

func contenders() map[string]run { return map[string]run{"setpoint": runOurs, "peer": runPeer} }

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// listTime is how long the server takes for a LIST that nobody decodes.
func listTime(ctx context.Context, config *rest.Config) (time.Duration, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	_, err = client.CoreV1().RESTClient().Get().Resource("pods").SetHeader("Accept", "application/vnd.kubernetes.protobuf").DoRaw(ctx)
	return time.Since(start), err
}

func syncTime(ctx context.Context, config *rest.Config, n int, r run) (time.Duration, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var mu sync.Mutex
	reconciled := make(map[types.NamespacedName]bool, n)
	all := make(chan struct{})
	ended := make(chan error, 1)
	start := time.Now()
	go func() {
		ended <- r(ctx, config, func(key types.NamespacedName, _ string) {
			mu.Lock()
			defer mu.Unlock()
			if reconciled[key] {
				return
			}
			reconciled[key] = true
			if len(reconciled) == n {
				close(all)
			}
		})
	}()
	select {
	case <-all:
	case err := <-ended:
		return 0, fmt.Errorf("the manager ended early: %w", err)
	}
	took := time.Since(start)
	stop()
	return took, <-ended
}

// MeasureLatency changes Pods at a steady rate and measures from before each write to the start of its reconcile.
func MeasureLatency(ctx context.Context, perSecond, seconds int) (report.Result, error) {
	const n = 500
	p, err := filled.Start(ctx, n)
	if err != nil {
		return report.Result{}, err
	}
	defer p.Stop()
	p99, p50 := map[string]time.Duration{}, map[string]time.Duration{}
	for name, c := range contenders() {
		latencies, err := latencies(ctx, p.RESTConfig(), n, perSecond, seconds, c)
		if err != nil {
			return report.Result{}, fmt.Errorf("%s: %w", name, err)
		}
		slices.Sort(latencies)
		p50[name], p99[name] = latencies[len(latencies)/2], latencies[len(latencies)*99/100]
	}
	note := fmt.Sprintf("from before the write to the start of the reconcile, the plane in the same process; %d changes/s for %d s; p50 %.2f ms, peer's %.2f ms",
		perSecond, seconds, ms(p50["setpoint"]), ms(p50["peer"]))
	return report.Cost("event-latency-p99", "ms", ms(p99["setpoint"])).Against(ms(p99["peer"]), note).AtLeastRatio(2), nil
}

func latencies(ctx context.Context, config *rest.Config, n, perSecond, seconds int, r run) ([]time.Duration, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	changes := perSecond * seconds
	sent := make([]time.Time, changes)
	took := make([]time.Duration, changes)
	var mu sync.Mutex
	left, warm := changes, map[types.NamespacedName]bool{}
	ready, done := make(chan struct{}), make(chan struct{})
	ended := make(chan error, 1)
	run := fmt.Sprint(time.Now().UnixNano()) // tells this run's changes from those of the one before
	go func() {
		ended <- r(ctx, config, func(key types.NamespacedName, change string) {
			now := time.Now()
			mu.Lock()
			defer mu.Unlock()
			if !warm[key] {
				if warm[key] = true; len(warm) == n {
					close(ready)
				}
				return
			}
			index, of, _ := strings.Cut(change, ".")
			i, err := strconv.Atoi(index)
			if err != nil || of != run || took[i] != 0 {
				return
			}
			took[i] = now.Sub(sent[i])
			if left--; left == 0 {
				close(done)
			}
		})
	}()
	select {
	case <-ready:
	case err := <-ended:
		return nil, fmt.Errorf("the manager ended early: %w", err)
	}
	begin := time.Now()
	err = filled.Each(changes, 16, func(i int) error {
		time.Sleep(time.Until(begin.Add(time.Duration(i) * time.Second / time.Duration(perSecond))))
		pod := pods.Pod(i % n)
		patch := fmt.Sprintf(`{"metadata":{"labels":{"change":"%d.%s"}}}`, i, run)
		mu.Lock()
		sent[i] = time.Now()
		mu.Unlock()
		_, err := client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	})
	if err != nil {
		return nil, err
	}
	select {
	case <-done:
	case <-time.After(10 * time.Second): // changes that were merged into later ones never show
	case err := <-ended:
		return nil, fmt.Errorf("the manager ended early: %w", err)
	}
	stop()
	err = <-ended
	mu.Lock()
	defer mu.Unlock()
	seen := slices.DeleteFunc(took, func(d time.Duration) bool { return d == 0 })
	if len(seen) == 0 {
		return nil, fmt.Errorf("none of %d changes was seen by a reconcile", changes)
	}
	return seen, err
}

func runOurs(ctx context.Context, config *rest.Config, seen func(types.NamespacedName, string)) error {
	m, err := setpoint.NewManager(setpoint.Config{REST: config, FieldOwner: "bench"})
	if err != nil {
		return err
	}
	setpoint.For[*corev1.Pod](m, "pods").Workers(workers).Reconcile(func(_ context.Context, pod *corev1.Pod) (setpoint.Result, error) {
		seen(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, pod.Labels["change"])
		return setpoint.Result{}, nil
	})
	return m.Run(ctx)
}

func runPeer(ctx context.Context, config *rest.Config, seen func(types.NamespacedName, string)) error {
	skip := true
	m, err := ctrl.NewManager(config, manager.Options{Logger: logr.Discard(), Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(m).For(&corev1.Pod{}).Named("pods").
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, SkipNameValidation: &skip}).
		Complete(reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
			var pod corev1.Pod
			if err := m.GetClient().Get(ctx, req.NamespacedName, &pod); err != nil {
				return reconcile.Result{}, err
			}
			seen(req.NamespacedName, pod.Labels["change"])
			return reconcile.Result{}, nil
		}))
	if err != nil {
		return err
	}
	return m.Start(ctx)
}
