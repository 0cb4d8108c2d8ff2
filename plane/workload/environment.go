package workload

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// environment is what the controllers of one plane share.
type environment struct {
	config    Config
	informers informers.SharedInformerFactory
	monitors  *monitors
	resources *resources
	// informersStarted is closed when it is safe to start further informers.
	informersStarted chan struct{}
	ownsInformers    bool
}

func newEnvironment(ctx context.Context, config Config) (*environment, error) {
	e := &environment{config: config, informers: config.Informers, informersStarted: make(chan struct{})}
	if e.informers == nil {
		var err error
		if e.informers, err = NewInformers(config.REST); err != nil {
			return nil, err
		}
		e.ownsInformers = true
	}
	metadataClient, err := e.metadataClient("metadata-informers")
	if err != nil {
		return nil, err
	}
	e.monitors = newMonitors(e.informers, metadataClient)
	client, err := e.client("controller-discovery")
	if err != nil {
		return nil, err
	}
	if e.resources, err = newResources(ctx, client.Discovery(), e.monitors); err != nil {
		return nil, err
	}
	return e, nil
}

// NewInformers makes the informer factory that the controllers and the fake nodes
// of one plane share. It drops managedFields from what it keeps. Whoever makes it
// shuts it down, after the last Wait of those who use it.
func NewInformers(config *rest.Config) (informers.SharedInformerFactory, error) {
	client, err := clientFor(config, "shared-informers")
	if err != nil {
		return nil, err
	}
	return informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(dropManagedFields)), nil
}

// dropManagedFields saves about a third of what an object takes in memory. An
// update that is sent without them leaves the server's as they are.
func dropManagedFields(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}

func (e *environment) waitForSync(ctx context.Context) bool {
	return e.informers.WaitForCacheSyncWithContext(ctx).Err == nil && e.monitors.waitForSync(ctx)
}

// shutdown waits for the informers to end; ctx has ended before.
func (e *environment) shutdown() {
	e.monitors.shutdown()
	if e.ownsInformers {
		e.informers.Shutdown()
	}
}

// client makes the typed client of the controller called name.
func (e *environment) client(name string) (kubernetes.Interface, error) {
	return clientFor(e.config.REST, name)
}

func (e *environment) metadataClient(name string) (metadata.Interface, error) {
	config := configFor(e.config.REST, name)
	client, err := metadata.NewForConfig(metadata.ConfigFor(config))
	if err != nil {
		return nil, fmt.Errorf("workload: making the metadata client of %s: %w", name, err)
	}
	return client, nil
}

func clientFor(config *rest.Config, name string) (kubernetes.Interface, error) {
	client, err := kubernetes.NewForConfig(configFor(config, name))
	if err != nil {
		return nil, fmt.Errorf("workload: making the client of %s: %w", name, err)
	}
	return client, nil
}

// configFor is the configuration with which the controller called name asks:
// protobuf, no rate limit, its own user agent.
func configFor(config *rest.Config, name string) *rest.Config {
	config = rest.CopyConfig(config)
	config.UserAgent = "kube-controller-manager/" + name
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	config.QPS = -1
	config.RateLimiter = nil
	return config
}
