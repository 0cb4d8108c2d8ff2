package workload

import (
	"context"
	"time"

	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/kubernetes/pkg/controller/daemon"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/controller/replication"
	"k8s.io/kubernetes/pkg/controller/statefulset"
)

// workers is how many objects a controller works on at once.
const workers = 5

// workersLoop is the loop of a controller whose Run takes a number of workers.
func workersLoop(run func(ctx context.Context, workers int)) []loop {
	return []loop{func(ctx context.Context) { run(ctx, workers) }}
}

func buildDeployment(ctx context.Context, e *environment) ([]loop, error) {
	client, err := e.client("deployment-controller")
	if err != nil {
		return nil, err
	}
	apps := e.informers.Apps().V1()
	c, err := deployment.NewDeploymentController(ctx, apps.Deployments(), apps.ReplicaSets(), e.informers.Core().V1().Pods(), client)
	if err != nil {
		return nil, err
	}
	return workersLoop(c.Run), nil
}

func buildReplicaSet(ctx context.Context, e *environment) ([]loop, error) {
	client, err := e.client("replicaset-controller")
	if err != nil {
		return nil, err
	}
	c := replicaset.NewReplicaSetController(ctx, e.informers.Apps().V1().ReplicaSets(), e.informers.Core().V1().Pods(), client, replicaset.BurstReplicas)
	return workersLoop(c.Run), nil
}

func buildReplicationController(ctx context.Context, e *environment) ([]loop, error) {
	client, err := e.client("replication-controller")
	if err != nil {
		return nil, err
	}
	core := e.informers.Core().V1()
	c := replication.NewReplicationManager(ctx, core.Pods(), core.ReplicationControllers(), client, replication.BurstReplicas)
	return workersLoop(c.Run), nil
}

func buildStatefulSet(ctx context.Context, e *environment) ([]loop, error) {
	client, err := e.client("statefulset-controller")
	if err != nil {
		return nil, err
	}
	apps, core := e.informers.Apps().V1(), e.informers.Core().V1()
	c := statefulset.NewStatefulSetController(ctx, core.Pods(), apps.StatefulSets(), core.PersistentVolumeClaims(), apps.ControllerRevisions(), client)
	return workersLoop(c.Run), nil
}

func buildDaemonSet(ctx context.Context, e *environment) ([]loop, error) {
	client, err := e.client("daemon-set-controller")
	if err != nil {
		return nil, err
	}
	apps, core := e.informers.Apps().V1(), e.informers.Core().V1()
	failedPods := flowcontrol.NewBackOff(time.Second, 15*time.Minute)
	c, err := daemon.NewDaemonSetsController(ctx, apps.DaemonSets(), apps.ControllerRevisions(), core.Pods(), core.Nodes(), client, failedPods)
	if err != nil {
		return nil, err
	}
	return workersLoop(c.Run), nil
}
