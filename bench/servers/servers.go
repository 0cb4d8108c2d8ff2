// Package servers measures the plane beside etcd and kube-apiserver, each as processes of their own, reached over TLS by the
// same client.
//
// The peer runs as envtest runs it: etcd without fsync, kube-apiserver with RBAC, no controllers. The plane runs with all
// its controllers, as `setpoint up` starts it. Both keep nothing after they end.
package servers

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/bench/filled"
	"github.com/setpoint-dev/setpoint/bench/report"
)

// server is a control plane that runs in processes of its own.
type server struct {
	config *rest.Config
	dir    string        // of its files
	ready  time.Duration // from the start of its first process
	pids   []int
	stop   func() error
}

// figures are what one server needs; rates are per second.
type figures struct {
	start, firstCR      time.Duration
	resident            float64 // MB
	creates1, creates32 float64
}

// rounds is how often a server is started; the best start counts.
const rounds = 3

// Measure starts `setpoint up` and, unless peer is nil, etcd and kube-apiserver from that folder, and puts both to the same work.
func Measure(ctx context.Context, setpoint string, peer *Peer) ([]report.Result, error) {
	ours, err := measure(ctx, func(ctx context.Context) (*server, error) { return startSetpoint(ctx, setpoint) })
	if err != nil {
		return nil, fmt.Errorf("measuring %s: %w", setpoint, err)
	}
	results := []report.Result{
		report.Cost("plane-start", "ms", ms(ours.start)),
		report.Cost("first-cr", "ms", ms(ours.firstCR)),
		report.Cost("creates-1", "creates/s", ours.creates1),
		report.Cost("creates-32", "creates/s", ours.creates32),
		report.Cost("plane-memory", "MB", ours.resident),
	}
	if peer != nil {
		theirs, err := measure(ctx, peer.start)
		if err != nil {
			return nil, fmt.Errorf("measuring etcd and kube-apiserver: %w", err)
		}
		results[0] = results[0].Against(ms(theirs.start), "process start to ready; ours with all controllers")
		results[1] = results[1].Against(ms(theirs.firstCR), "CRD created to first custom resource created")
		results[2] = results[2].AgainstRate(theirs.creates1, "ConfigMaps of 1 KB over TLS, 1 worker, nothing synced to disk")
		results[3] = results[3].AgainstRate(theirs.creates32, "the same, 32 workers")
		results[4] = results[4].Against(theirs.resident, "resident, idle; ours with all controllers, peer's without any")
	}
	results[0] = results[0].AtMost(300)
	results[1] = results[1].AtMost(50)
	results[2] = results[2].AtLeastRatio(3)
	results[3] = results[3].AtLeastRatio(3)
	results[4] = results[4].AtMost(180)
	return results, nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func measure(ctx context.Context, start func(context.Context) (*server, error)) (figures, error) {
	var out figures
	for round := range rounds {
		s, err := start(ctx)
		if err != nil {
			return out, err
		}
		if out.start == 0 || s.ready < out.start {
			out.start = s.ready
		}
		if round == rounds-1 {
			err = out.work(ctx, s)
		}
		if stopped := s.stop(); err == nil {
			err = stopped
		}
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// idle is how long a server rests before its memory is read.
const idle = 10 * time.Second

func (f *figures) work(ctx context.Context, s *server) error {
	time.Sleep(idle)
	for _, pid := range s.pids {
		mb, err := resident(pid)
		if err != nil {
			return err
		}
		f.resident += mb
	}
	var err error
	if f.firstCR, err = firstCR(ctx, s.config); err != nil {
		return err
	}
	if f.creates1, err = creates(ctx, s.config, 1, "one"); err != nil {
		return err
	}
	f.creates32, err = creates(ctx, s.config, 32, "many")
	return err
}

// resident returns the megabytes that a process has in memory.
func resident(pid int) (float64, error) {
	if runtime.GOOS != "linux" {
		return 0, fmt.Errorf("reading resident memory is not supported on %s", runtime.GOOS)
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			return kb / 1000, err
		}
	}
	return 0, fmt.Errorf("no resident memory is stated for process %d", pid)
}

// creates returns how many ConfigMaps a second so many workers create, over five seconds.
func creates(ctx context.Context, config *rest.Config, workers int, prefix string) (float64, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return 0, err
	}
	payload := strings.Repeat("x", 1000)
	create := func(i int) error {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%06d", prefix, i)}, Data: map[string]string{"payload": payload}}
		_, err := client.CoreV1().ConfigMaps("default").Create(ctx, cm, metav1.CreateOptions{})
		return err
	}
	const warm = 200
	if err := filled.Each(warm, workers, create); err != nil {
		return 0, err
	}
	var done atomic.Int64
	begin := time.Now()
	end := begin.Add(5 * time.Second)
	err = filled.Each(1_000_000, workers, func(i int) error {
		if time.Now().After(end) {
			return errEnough
		}
		done.Add(1)
		return create(warm + i)
	})
	if err != errEnough {
		return 0, err
	}
	return float64(done.Load()) / time.Since(begin).Seconds(), nil
}

var errEnough = fmt.Errorf("time is up")

// firstCR returns the time from the creation of a CustomResourceDefinition to that of its first object.
func firstCR(ctx context.Context, config *rest.Config) (time.Duration, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return 0, err
	}
	crds := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	widgets := client.Resource(schema.GroupVersionResource{Group: "bench.setpoint.dev", Version: "v1", Resource: "widgets"}).Namespace("default")
	crd := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "widgets.bench.setpoint.dev"},
		"spec": map[string]any{
			"group": "bench.setpoint.dev", "scope": "Namespaced",
			"names": map[string]any{"plural": "widgets", "singular": "widget", "kind": "Widget"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{
				"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
			}}},
		},
	}}
	widget := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "bench.setpoint.dev/v1", "kind": "Widget", "metadata": map[string]any{"name": "first"},
	}}
	begin := time.Now()
	if _, err := crds.Create(ctx, crd, metav1.CreateOptions{}); err != nil {
		return 0, err
	}
	for {
		_, err := widgets.Create(ctx, widget, metav1.CreateOptions{})
		if err == nil {
			return time.Since(begin), nil
		}
		if time.Since(begin) > time.Minute {
			return 0, fmt.Errorf("the kind is not served within a minute: %w", err)
		}
		time.Sleep(time.Millisecond) // not found until it is served
	}
}
