package replicaset

import (
	"errors"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// batches calls do with 0 to n-1, in batches that run at once: one call, then two, four, and so on. It ends after the first
// batch with an error, and returns the errors of that one.
func batches(n int, do func(i int) error) error {
	for start, size := 0, 1; start < n; size *= 2 {
		size = min(size, n-start)
		errs := make([]error, size)
		var running sync.WaitGroup
		for i := range size {
			running.Go(func() { errs[i] = do(start + i) })
		}
		running.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
		start += size
	}
	return nil
}

// remove turns an active Pod into one that is being deleted.
func (c *claim) remove(pod *corev1.Pod) {
	c.active = slices.DeleteFunc(c.active, func(p *corev1.Pod) bool { return p == pod })
	c.terminating++
}
