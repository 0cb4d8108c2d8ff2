package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// Config describes the fake nodes of one plane.
type Config struct {
	// REST reaches the API server with the rights of system:masters. Rate limits
	// in it are ignored.
	REST *rest.Config
	// Informers are shared with others of the same process. Nil: own ones.
	Informers informers.SharedInformerFactory
	// Count is how many nodes there are. Zero: one.
	Count int
	// Prefix begins the name of each node; "-0", "-1" and so on follow. Empty: "node".
	Prefix string
	// Labels are put on every node beside the well-known ones.
	Labels map[string]string
	// Taints are put on every node.
	Taints []corev1.Taint
	// Capacity is what every node has and offers. Missing resources get a default:
	// 1000 CPUs, 4 TiB of memory, 16 TiB of ephemeral storage, 10000 Pods.
	Capacity corev1.ResourceList
	// Delays shape the life of Pods. Zero: everything happens at once.
	Delays Delays
	// NoEvents switches off the Events a scheduler and a kubelet would write.
	NoEvents bool
	// NoScheduler leaves Pods for another scheduler to assign.
	NoScheduler bool
	// Logger receives what goes wrong. Nil: nothing is logged.
	Logger *slog.Logger
}

// Delays are the times that the steps of a Pod's life take.
type Delays struct {
	// Schedule passes between the creation of a Pod and its assignment to a node.
	Schedule time.Duration
	// Start passes between the assignment and the start of the first container;
	// images are pulled in that time.
	Start time.Duration
	// Ready passes between the start of a container and its being ready.
	Ready time.Duration
	// Run is how long a container runs that is meant to end: an init container
	// and the containers of a Pod whose restart policy is OnFailure or Never and
	// that belongs to a Job.
	Run time.Duration
	// Stop passes between the deletion of a Pod and the end of its containers. It
	// is capped by the grace period.
	Stop time.Duration
}

// Nodes are running fake nodes with their scheduler.
type Nodes struct {
	synced chan struct{}
	done   chan struct{}
}

// Start registers the nodes and returns when they are Ready in the API. Pods are
// assigned and run until ctx ends. All errors of the configuration come back at
// once.
func Start(ctx context.Context, config Config) (*Nodes, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	kubelet, err := clientFor(config.REST, "kubelet")
	if err != nil {
		return nil, err
	}
	binder, err := clientFor(config.REST, "kube-scheduler")
	if err != nil {
		return nil, err
	}
	version, err := kubelet.Discovery().ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("node: asking for the API server's version: %w", err)
	}
	hosts := map[string]string{}
	for i := range config.Count {
		hosts[fmt.Sprintf("%s-%d", config.Prefix, i)] = nth(hostRange, uint32(i)+1).String()
	}
	nodes := &registrar{client: kubelet, config: config, version: version.GitVersion, hosts: hosts,
		logger: config.Logger, leases: map[string]*coordinationv1.Lease{}}
	if err := nodes.register(ctx); err != nil {
		return nil, err
	}

	shared, own := config.Informers, false
	if shared == nil {
		shared, own = informers.NewSharedInformerFactory(kubelet, 0), true
	}
	events := newRecorder(kubelet, shared.Core().V1().Namespaces().Lister(), config.Logger, config.NoEvents)
	loops := []func(context.Context){nodes.run, events.run}
	handles, parts, err := connect(shared, kubelet, binder, hosts, config, events)
	if err != nil {
		return nil, err
	}
	loops = append(loops, parts...)
	shared.StartWithContext(ctx)

	n := &Nodes{synced: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(n.done)
		if own {
			defer shared.Shutdown()
		}
		n.run(ctx, handles, loops)
	}()
	return n, nil
}

// connect joins agent and scheduler to the informers.
func connect(shared informers.SharedInformerFactory, kubelet, binder kubernetes.Interface, hosts map[string]string, config Config, events *recorder) (handles []cache.DoneChecker, loops []func(context.Context), err error) {
	core := shared.Core().V1()
	var errs []error
	watch := func(informer cache.SharedIndexInformer, handler cache.ResourceEventHandler) {
		handle, err := informer.AddEventHandler(handler)
		if err != nil {
			errs = append(errs, fmt.Errorf("node: following the API: %w", err))
			return
		}
		handles = append(handles, handle.HasSyncedChecker())
	}
	a := &agent{
		client: kubelet, pods: core.Pods().Lister(), hosts: hosts, delays: config.Delays,
		addresses: newAddresses(), events: events, logger: config.Logger,
		queue: newQueue("kubelet"), known: map[types.UID]*resident{},
	}
	watch(core.Pods().Informer(), a.podHandlers())
	loops = append(loops, a.run)
	if !config.NoScheduler {
		s := &scheduler{
			client: binder, pods: core.Pods().Lister(), nodes: core.Nodes().Lister(), claims: core.PersistentVolumeClaims().Lister(),
			delays: config.Delays, events: events, logger: config.Logger, queue: newQueue("scheduler"),
			assigned: map[types.UID]assignment{}, accounts: map[string]*account{}, waiting: map[cache.ObjectName]bool{},
		}
		watch(core.Pods().Informer(), s.podHandlers())
		watch(core.Nodes().Informer(), s.wakeHandlers())
		watch(core.PersistentVolumeClaims().Informer(), s.wakeHandlers())
		loops = append(loops, s.run)
	}
	return handles, loops, errors.Join(errs...)
}

// run works when all that is there has been seen: the addresses in use, and what
// the nodes carry.
func (n *Nodes) run(ctx context.Context, handles []cache.DoneChecker, loops []func(context.Context)) {
	if cache.WaitFor(ctx, "", handles...) {
		close(n.synced)
	}
	// Also when ctx has ended: the queues, which have goroutines, end only in the loops.
	var group sync.WaitGroup
	for _, run := range loops {
		group.Go(func() { run(ctx) })
	}
	group.Wait()
}

// Synced is closed when all Pods and nodes that were there have been seen and the
// agent and the scheduler work. It stays open when ctx ends before.
func (n *Nodes) Synced() <-chan struct{} { return n.synced }

// Wait returns when all goroutines have ended, which happens soon after the end
// of the context that Start was given.
func (n *Nodes) Wait() { <-n.done }

// complete fills in the defaults and returns every mistake.
func (c *Config) complete() error {
	var errs []error
	if c.REST == nil {
		errs = append(errs, errors.New("node: Config.REST is not set; give the configuration that reaches the plane's API server"))
	}
	if c.Count == 0 {
		c.Count = 1
	}
	if c.Count < 0 || c.Count > maxNodes {
		errs = append(errs, fmt.Errorf("node: Config.Count is %d; give a number from 1 to %d", c.Count, maxNodes))
	}
	if c.Prefix == "" {
		c.Prefix = "node"
	}
	for _, delay := range []struct {
		name string
		time.Duration
	}{{"Schedule", c.Delays.Schedule}, {"Start", c.Delays.Start}, {"Ready", c.Delays.Ready}, {"Run", c.Delays.Run}, {"Stop", c.Delays.Stop}} {
		if delay.Duration < 0 {
			errs = append(errs, fmt.Errorf("node: Config.Delays.%s is %s; give zero or more", delay.name, delay.Duration))
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return errors.Join(errs...)
}

func newQueue(name string) workqueue.TypedRateLimitingInterface[cache.ObjectName] {
	return workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName](),
		workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{Name: name})
}

// clientFor makes a client that asks in protobuf, without a rate limit, under the
// name of the component it plays.
func clientFor(config *rest.Config, component string) (kubernetes.Interface, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = component + "/setpoint"
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	config.QPS = -1
	config.RateLimiter = nil
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("node: making the client of %s: %w", component, err)
	}
	return client, nil
}
