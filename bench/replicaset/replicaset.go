// Package replicaset measures Setpoint's controller of ReplicaSets beside Kubernetes' own, which it takes the place of.
//
// Each runs, with a cache of its own, in the process of a plane in which all other controllers and a fake node run, too. The
// node shares the processors with it: how soon Pods are ready is partly the node's doing, and the same for both.
package replicaset

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/bench/report"
	"github.com/setpoint-dev/setpoint/operators/replicaset"
	"github.com/setpoint-dev/setpoint/plane"
	"github.com/setpoint-dev/setpoint/plane/workload"
)

// rounds is how often each controller is put to the work, in turns; the best time of each counts.
const rounds = 3

// timeout is how long a round may take.
const timeout = 3 * time.Minute

// run runs a controller until ctx ends.
type run func(ctx context.Context, config *rest.Config) error

// figures are what a controller needs for a scaling up and one down.
type figures struct {
	created, ready, gone time.Duration
	up, down             int64 // requests
}

// Measure scales a ReplicaSet from 1 to n Pods and then to none.
func Measure(ctx context.Context, n int32) ([]report.Result, error) {
	var ours, theirs figures
	for range rounds {
		if err := ours.better(ctx, n, runOurs); err != nil {
			return nil, fmt.Errorf("setpoint: %w", err)
		}
		if err := theirs.better(ctx, n, runPeer); err != nil {
			return nil, fmt.Errorf("peer: %w", err)
		}
	}
	return []report.Result{
		report.Cost(fmt.Sprintf("replicaset-up-%d", n), "ms", ms(ours.ready)).Against(ms(theirs.ready), fmt.Sprintf(
			"1 to %d Pods, until the status says that all are ready; that all are there after %.0f ms, peer's %.0f ms; %d requests, peer's %d; peer: Kubernetes' controller",
			n, ms(ours.created), ms(theirs.created), ours.up, theirs.up)),
		report.Cost(fmt.Sprintf("replicaset-down-%d", n), "ms", ms(ours.gone)).Against(ms(theirs.gone), fmt.Sprintf(
			"%d Pods to none, until the status says that all are gone; %d requests, peer's %d", n, ours.down, theirs.down)),
	}, nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// better measures once more, and keeps what is better.
func (f *figures) better(ctx context.Context, n int32, r run) error {
	now, err := measure(ctx, n, r)
	if err != nil {
		return err
	}
	if f.ready == 0 || now.ready < f.ready {
		f.created, f.ready, f.up = now.created, now.ready, now.up
	}
	if f.gone == 0 || now.gone < f.gone {
		f.gone, f.down = now.gone, now.down
	}
	return nil
}

func measure(ctx context.Context, n int32, r run) (figures, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	p, err := plane.New(plane.Config{Controllers: []string{"-replicaset"}})
	if err != nil {
		return figures{}, err
	}
	if err := p.Start(ctx); err != nil {
		return figures{}, err
	}
	defer p.Stop()
	client, err := kubernetes.NewForConfig(p.RESTConfig())
	if err != nil {
		return figures{}, err
	}
	var sent atomic.Int64
	config := p.RESTConfig()
	config.Wrap(counting(&sent))
	running, stop := context.WithCancelCause(ctx)
	ended := make(chan error, 1)
	go func() {
		err := r(running, config)
		stop(fmt.Errorf("the controller ended: %w", err))
		ended <- err
	}()
	out, err := scale(running, client, n, &sent)
	stop(nil)
	return out, errors.Join(err, <-ended)
}

// scale scales a ReplicaSet up and down, beginning when its first Pod is ready, so that the controller runs.
func scale(ctx context.Context, client kubernetes.Interface, n int32, sent *atomic.Int64) (figures, error) {
	var out figures
	sets := client.AppsV1().ReplicaSets(metav1.NamespaceDefault)
	if _, err := sets.Create(ctx, newReplicaSet("web"), metav1.CreateOptions{}); err != nil {
		return out, err
	}
	if err := follow(ctx, client, "web", func(s appsv1.ReplicaSetStatus) bool { return s.ReadyReplicas == 1 }); err != nil {
		return out, err
	}
	to := func(replicas int32, done func(appsv1.ReplicaSetStatus) bool) (time.Duration, int64, error) {
		before, begin := sent.Load(), time.Now()
		patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
		if _, err := sets.Patch(ctx, "web", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return 0, 0, err
		}
		err := follow(ctx, client, "web", done)
		return time.Since(begin), sent.Load() - before, err
	}
	var err error
	begin := time.Now()
	out.ready, out.up, err = to(n, func(s appsv1.ReplicaSetStatus) bool {
		if out.created == 0 && s.Replicas == n {
			out.created = time.Since(begin)
		}
		return s.ReadyReplicas == n
	})
	if err != nil {
		return out, err
	}
	out.gone, out.down, err = to(0, func(s appsv1.ReplicaSetStatus) bool {
		return s.Replicas == 0 && s.TerminatingReplicas != nil && *s.TerminatingReplicas == 0
	})
	return out, err
}

// follow watches a ReplicaSet until done says of its status that it is.
func follow(ctx context.Context, client kubernetes.Interface, name string, done func(appsv1.ReplicaSetStatus) bool) error {
	changes, err := client.AppsV1().ReplicaSets(metav1.NamespaceDefault).Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String(),
	})
	if err != nil {
		return err
	}
	defer changes.Stop()
	var last appsv1.ReplicaSetStatus
	for change := range changes.ResultChan() {
		set, is := change.Object.(*appsv1.ReplicaSet)
		if !is {
			return fmt.Errorf("watching ReplicaSet %s: %v", name, change.Object)
		}
		if last = set.Status; done(last) {
			return nil
		}
	}
	return fmt.Errorf("the watch of ReplicaSet %s ended (%v), when its status was %+v", name, context.Cause(ctx), last)
}

func newReplicaSet(name string) *appsv1.ReplicaSet {
	app := map[string]string{"app": name}
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.ReplicaSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: app},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: app},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "registry.example.com/web:v1"}}},
			},
		},
	}
}

// counting counts the requests about objects of the namespace, which leaves out discovery and the cache's own.
func counting(sent *atomic.Int64) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if strings.Contains(r.URL.Path, "/namespaces/"+metav1.NamespaceDefault+"/") {
				sent.Add(1)
			}
			return next.RoundTrip(r)
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func runOurs(ctx context.Context, config *rest.Config) error {
	m, err := setpoint.NewManager(setpoint.Config{REST: config, FieldOwner: "setpoint-replicaset", Kinds: replicaset.Kinds()})
	if err != nil {
		return err
	}
	if err := replicaset.Setup(m); err != nil {
		return err
	}
	return m.Run(ctx)
}

func runPeer(ctx context.Context, config *rest.Config) error {
	c, err := workload.Start(ctx, workload.Config{REST: config, Controllers: []string{"replicaset"}})
	if err != nil {
		return err
	}
	c.Wait()
	return nil
}
