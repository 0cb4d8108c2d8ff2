package plane

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/plane/node"
	"github.com/setpoint-dev/setpoint/plane/workload"
)

// workloads are the controllers and nodes beside the API server.
type workloads struct {
	cancel      context.CancelFunc
	shared      informers.SharedInformerFactory
	controllers *workload.Controllers
	nodes       *node.Nodes
}

// startWorkloads returns when the nodes are Ready, the controllers work and Pods
// can be created in the namespace "default".
func startWorkloads(ctx context.Context, r *running, tokenKey crypto.Signer, config Config, logger *slog.Logger) (*workloads, error) {
	reach := r.server.RESTConfig(admin)
	lifetime, cancel := context.WithCancel(context.Background())
	w := &workloads{cancel: cancel}
	err := w.start(ctx, lifetime, reach, workload.Config{
		REST:        reach,
		Controllers: config.Controllers,
		RootCA:      r.authority.PEM,
		TokenKey:    tokenKey,
		Logger:      logger,
	}, nodesConfig(config, reach, logger))
	if err != nil {
		w.stop()
		return nil, err
	}
	return w, nil
}

func nodesConfig(config Config, reach *rest.Config, logger *slog.Logger) node.Config {
	nodes := config.Nodes
	nodes.REST, nodes.Logger = reach, logger
	return nodes
}

func (w *workloads) start(ctx, lifetime context.Context, reach *rest.Config, controllers workload.Config, nodes node.Config) error {
	var err error
	// Not the server's, which run already: upstream's controllers finish their set-up after they have added their handlers.
	if w.shared, err = workload.NewInformers(reach); err != nil {
		return fmt.Errorf("making the informers of controllers and nodes: %w", err)
	}
	controllers.Informers, nodes.Informers = w.shared, w.shared
	if w.controllers, err = workload.Start(lifetime, controllers); err != nil {
		return fmt.Errorf("starting the controllers: %w", err)
	}
	if w.nodes, err = node.Start(lifetime, nodes); err != nil {
		return fmt.Errorf("starting the nodes: %w", err)
	}
	for what, synced := range map[string]<-chan struct{}{"controllers": w.controllers.Synced(), "nodes": w.nodes.Synced()} {
		select {
		case <-synced:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the %s: %w", what, ctx.Err())
		}
	}
	return awaitServiceAccount(ctx, reach, controllers.Controllers)
}

// awaitServiceAccount waits for the ServiceAccount without which admission refuses
// Pods, if a controller runs that makes it.
func awaitServiceAccount(ctx context.Context, reach *rest.Config, selected []string) error {
	if !runs(selected, "serviceaccount") {
		return nil
	}
	client, err := kubernetes.NewForConfig(reach)
	if err != nil {
		return err
	}
	watch, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", "default").String(),
	})
	if err != nil {
		return fmt.Errorf("watching for the default ServiceAccount: %w", err)
	}
	defer watch.Stop()
	for event := range watch.ResultChan() {
		if _, ok := event.Object.(*corev1.ServiceAccount); ok {
			return nil
		}
	}
	return errors.Join(errors.New("waiting for the default ServiceAccount: its watch has ended"), ctx.Err())
}

// runs says whether a selection of controllers contains that one.
func runs(selected []string, name string) bool {
	if slices.Contains(selected, "-"+name) {
		return false
	}
	onlyExclusions := !slices.ContainsFunc(selected, func(entry string) bool { return !strings.HasPrefix(entry, "-") })
	return onlyExclusions || slices.Contains(selected, name)
}

// stop ends them, informers last.
func (w *workloads) stop() {
	w.cancel()
	if w.nodes != nil {
		w.nodes.Wait()
	}
	if w.controllers != nil {
		w.controllers.Wait()
	}
	if w.shared != nil {
		w.shared.Shutdown()
	}
}
