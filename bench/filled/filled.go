// Package filled starts planes full of objects, for benchmarks of what reads them.
package filled

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/setpoint-dev/setpoint/bench/pods"
	"github.com/setpoint-dev/setpoint/plane"
)

// writers is how many clients fill a plane.
const writers = 8

// Start starts a plane without controllers that holds n running Pods. The caller stops it.
func Start(ctx context.Context, n int) (*plane.Plane, error) {
	p, err := plane.New(plane.Config{APIOnly: true})
	if err != nil {
		return nil, err
	}
	if err := p.Start(ctx); err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(p.RESTConfig())
	if err != nil {
		return nil, err
	}
	for i := range pods.Namespaces {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: pods.Namespace(i)}}
		if _, err := client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
			return nil, fmt.Errorf("filling a plane: %w", err)
		}
	}
	err = Each(n, writers, func(i int) error {
		pod := pods.Pod(i)
		if _, err := client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
		pod.Status = pods.Running(i)
		_, err := client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		p.Stop()
		return nil, fmt.Errorf("filling a plane: %w", err)
	}
	return p, nil
}

// Each calls do for 0 to n-1 from so many goroutines, and returns the first error.
func Each(n, workers int, do func(i int) error) error {
	next := make(chan int)
	failed := make(chan error, workers)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range next {
				if err := do(i); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	var err error
feed:
	for i := range n {
		select {
		case next <- i:
		case err = <-failed:
			break feed
		}
	}
	close(next)
	wg.Wait()
	select {
	case e := <-failed:
		if err == nil {
			err = e
		}
	default:
	}
	return err
}
