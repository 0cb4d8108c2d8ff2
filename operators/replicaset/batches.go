package replicaset

import (
	"errors"
	"sync"
)

// batches calls do with 0 to n-1, in batches that run at once: one call, then two, four, and so on. It ends after the first
// batch with an error, and returns the different errors of that one.
func batches(n int, do func(i int) error) error {
	for start, size := 0, 1; start < n; size *= 2 {
		size = min(size, n-start)
		errs := make([]error, size)
		var running sync.WaitGroup
		for i := range size {
			running.Go(func() { errs[i] = do(start + i) })
		}
		running.Wait()
		if err := distinct(errs); err != nil {
			return err
		}
		start += size
	}
	return nil
}

// distinct joins the errors, those that say the same only once.
func distinct(errs []error) error {
	said := map[string]bool{}
	var kept []error
	for _, err := range errs {
		if err != nil && !said[err.Error()] {
			said[err.Error()] = true
			kept = append(kept, err)
		}
	}
	return errors.Join(kept...)
}
