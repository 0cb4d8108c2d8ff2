package node

import (
	"context"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
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
// run until ctx ends.
func Start(ctx context.Context, config Config) (*Nodes, error) {
	return nil, nil
}

// Synced is closed when the first listing of Pods has been taken over.
func (n *Nodes) Synced() <-chan struct{} { return n.synced }

// Wait returns when all goroutines have ended, which happens soon after the end
// of the context that Start was given.
func (n *Nodes) Wait() { <-n.done }
