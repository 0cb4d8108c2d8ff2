package workload

import (
	"context"
	"sync"
	"time"

	"k8s.io/kubernetes/pkg/controller/cronjob"
	"k8s.io/kubernetes/pkg/controller/job"
	"k8s.io/kubernetes/pkg/controller/ttlafterfinished"
)

// jobBatchPeriod is how long the Job controller gathers changes of a Job's Pods
// before it looks at the Job. Upstream's second spares a large cluster some
// writes and makes every Job here take a second at least.
const jobBatchPeriod = 10 * time.Millisecond

// setJobBatchPeriod writes upstream's variable before the first Job controller of
// the process reads it. It is one for all planes of the process, and never
// changes again.
var setJobBatchPeriod = sync.OnceFunc(func() { job.SyncJobBatchPeriod = jobBatchPeriod })

func buildJob(ctx context.Context, e *environment) ([]loop, error) {
	client, err := e.client("job-controller")
	if err != nil {
		return nil, err
	}
	setJobBatchPeriod()
	c, err := job.NewController(ctx, client, e.informers.Core().V1().Pods(), e.informers.Batch().V1().Jobs(), nil, nil)
	if err != nil {
		return nil, err
	}
	return workersLoop(c.Run), nil
}

func buildCronJob(ctx context.Context, e *environment) ([]loop, error) {
	client, err := e.client("cronjob-controller")
	if err != nil {
		return nil, err
	}
	batch := e.informers.Batch().V1()
	c, err := cronjob.NewControllerV2(ctx, batch.Jobs(), batch.CronJobs(), client)
	if err != nil {
		return nil, err
	}
	return workersLoop(c.Run), nil
}

func buildTTLAfterFinished(ctx context.Context, e *environment) ([]loop, error) {
	client, err := e.client("ttl-after-finished-controller")
	if err != nil {
		return nil, err
	}
	c := ttlafterfinished.New(ctx, e.informers.Batch().V1().Jobs(), client)
	return workersLoop(c.Run), nil
}
