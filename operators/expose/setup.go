package expose

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/cache"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/filter"
)

// Name is the operator's name: of its controllers, its lease and its Events' reporter.
const Name = "expose"

// FieldOwner is the name by which the operator owns fields. A manager that runs it should have it as its
// Config.FieldOwner, or Cleanup does not find what it made.
const FieldOwner = "setpoint-expose"

const (
	// ingressIndex finds the Services that ask to be exposed by the name of their Ingress.
	ingressIndex = "ingress"
	// askingIndex finds, by "true", all Services that ask to be exposed.
	askingIndex = "asking"
	// serviceIndex finds ConfigMaps by the names of the Services whose URL they ask for.
	serviceIndex = "service"
	// injectingIndex finds, by "true", all ConfigMaps that ask for values.
	injectingIndex = "injecting"
	// workers is how many objects of a kind are reconciled at once.
	workers = 8
)

//go:embed manifests/rbac.yaml
var rbac string

// RBAC returns, as YAML, the ServiceAccount setpoint-expose in the namespace setpoint-system and the least that it needs to
// be allowed: what the operator does in every namespace, and its lease in its own.
func RBAC() string { return rbac }

// AddToScheme teaches a manager's scheme the kinds that the operator needs beside the built-in ones: there are none.
func AddToScheme(*runtime.Scheme) error { return nil }

// Kinds returns the options of the cache that suit the operator: for setpoint.Config.Kinds. Without them it works, too.
func Kinds() map[schema.GroupKind]cache.Options {
	return map[schema.GroupKind]cache.Options{
		{Kind: "Node"}:      {Transform: cache.Keep("status.addresses")},
		{Kind: "ConfigMap"}: {Compress: true}, // most are of no concern here, and are never read
	}
}

// Setup adds the operator to a manager whose scheme knows the built-in kinds. All that is wrong with the options is in the one
// error.
func Setup(m *setpoint.Manager, o Options) error {
	if o.Namespace == "" {
		o.Namespace = DefaultNamespace
	}
	r := &reconciler{
		client: m.Client(), cache: m.Cache(), events: m.Events(Name), options: o, configs: &configs{}, routes: newRoutes(),
		found: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "setpoint_expose_problems_total",
			Help: "Times that a Service or ConfigMap was found to ask for what cannot be done, by reason.",
		}, []string{"reason"}),
	}
	err := errors.Join(
		o.check(),
		m.Metrics().Register(r.found),
		r.declareIndexes(),
		r.limitNamespaces(),
	)
	if err != nil {
		return fmt.Errorf("setting up the operator %s: %w", Name, err)
	}
	named := filter.Names(configName)
	setpoint.For[*corev1.Service](m, Name).
		Watches(&networkingv1.Ingress{}, r.servicesOfIngress).
		Watches(&corev1.ConfigMap{}, r.servicesOfConfig, named).
		Watches(&corev1.Node{}, r.servicesOfNode, addressChanged).
		Source("HTTPRoute", r.followRoutes).
		Workers(workers).
		Reconcile(r.reconcileService)
	setpoint.For[*networkingv1.Ingress](m, Name+"-ingress").
		Watches(&corev1.Service{}, r.ingressOfService).
		Watches(&corev1.ConfigMap{}, r.ingressesOfConfig, named).
		Watches(&corev1.Node{}, r.ingressesOfNode, addressChanged).
		Source("HTTPRoute", r.awaitRoutes).
		Workers(workers).
		ReconcileRequest(setpoint.ReconcilerFunc(r.reconcileIngress))
	setpoint.For[*corev1.ConfigMap](m, Name+"-configmap").
		Watches(&corev1.Service{}, r.configMapsOfService).
		Watches(&corev1.ConfigMap{}, r.configMapsOfConfig, named).
		Workers(workers).
		Reconcile(r.reconcileConfigMap)
	return nil
}

// declareIndexes declares how Services and ConfigMaps are found.
func (r *reconciler) declareIndexes() error {
	return errors.Join(
		r.cache.Index(serviceKind, ingressIndex, func(obj runtime.Object) []string {
			if s := (&settings{service: obj.(*corev1.Service)}); s.asked() {
				return []string{s.ingressName()}
			}
			return nil
		}),
		r.cache.Index(serviceKind, askingIndex, func(obj runtime.Object) []string {
			if asks(obj.(*corev1.Service)) {
				return []string{"true"}
			}
			return nil
		}),
		r.cache.Index(configMapKind, serviceIndex, func(obj runtime.Object) []string {
			return servicesOf(obj.(*corev1.ConfigMap))
		}),
		r.cache.Index(configMapKind, injectingIndex, func(obj runtime.Object) []string {
			if isAsking(obj.(*corev1.ConfigMap)) {
				return []string{"true"}
			}
			return nil
		}),
	)
}

// limitNamespaces limits what is watched to the namespaces that the options name.
func (r *reconciler) limitNamespaces() error {
	if len(r.options.Namespaces) == 0 {
		return nil
	}
	return errors.Join(
		r.cache.SetNamespaces(serviceKind, r.options.Namespaces...),
		r.cache.SetNamespaces(ingressKind, r.options.Namespaces...),
		r.cache.SetNamespaces(routeKind, r.options.Namespaces...),
		r.cache.SetNamespaces(configMapKind, union(r.options.Namespaces, r.options.Namespace)...),
	)
}

// The kinds that the operator watches.
var (
	serviceKind   = corev1.SchemeGroupVersion.WithKind("Service")
	configMapKind = corev1.SchemeGroupVersion.WithKind("ConfigMap")
	ingressKind   = networkingv1.SchemeGroupVersion.WithKind("Ingress")
)

// addressChanged passes changes of Nodes that may change how the cluster is reached.
func addressChanged(c filter.Change) bool {
	if c.Old == nil || c.New == nil {
		return true
	}
	before, err := c.Old.Object()
	after, err2 := c.New.Object()
	if err != nil || err2 != nil {
		return true
	}
	a, b := *before.(*corev1.Node), *after.(*corev1.Node)
	return nodeAddress(a) != nodeAddress(b) || preference(a) != preference(b) || a.Labels[externalIP] != b.Labels[externalIP]
}

// asking lists the Services that ask to be exposed: all of a namespace, or of all namespaces.
func (r *reconciler) asking(ctx context.Context, namespace string) []corev1.Service {
	var services corev1.ServiceList
	// A Service that the cache does not have yet is reconciled when it arrives.
	err := r.client.List(ctx, &services, client.InNamespace(namespace), client.MatchingFields{askingIndex: "true"}, client.AllowStale)
	if err != nil {
		setpoint.Logger(ctx).Error("Finding the Services that ask to be exposed", "namespace", namespace, "error", err)
	}
	return services.Items
}

// scope is the namespace whose Services a configuration is for; "" means all of them.
func (r *reconciler) scope(config metav1.Object) string {
	if config.GetNamespace() == r.options.Namespace {
		return ""
	}
	return config.GetNamespace()
}

func (r *reconciler) servicesOfConfig(ctx context.Context, config client.Object) []setpoint.Request {
	return requestsFor(r.asking(ctx, r.scope(config)))
}

func (r *reconciler) servicesOfNode(ctx context.Context, _ client.Object) []setpoint.Request {
	return requestsFor(r.needingNodes(ctx))
}

// needingNodes lists the Services whose plans depend on the Nodes.
func (r *reconciler) needingNodes(ctx context.Context) []corev1.Service {
	configs := map[string]Config{}
	return slices.DeleteFunc(r.asking(ctx, ""), func(s corev1.Service) bool {
		c, known := configs[s.Namespace]
		if !known {
			var err error
			if c, _, err = r.config(ctx, s.Namespace, client.AllowStale); err != nil {
				setpoint.Logger(ctx).Error("Finding the Services that depend on Nodes", "namespace", s.Namespace, "error", err)
			}
			configs[s.Namespace] = c
		}
		return !needsNodes(&s, c)
	})
}

func requestsFor(services []corev1.Service) []setpoint.Request {
	requests := make([]setpoint.Request, len(services))
	for i := range services {
		requests[i] = setpoint.RequestFor(&services[i])
	}
	return requests
}

func (r *reconciler) servicesOfIngress(ctx context.Context, ingress client.Object) []setpoint.Request {
	services, err := r.sharing(ctx, client.KeyOf(ingress), client.AllowStale)
	if err != nil {
		setpoint.Logger(ctx).Error("Finding the Services of an Ingress", "ingress", client.KeyOf(ingress), "error", err)
	}
	return requestsFor(services)
}

func (r *reconciler) ingressOfService(_ context.Context, service client.Object) []setpoint.Request {
	if s := (&settings{service: service.(*corev1.Service)}); s.asked() {
		return []setpoint.Request{{Namespace: service.GetNamespace(), Name: s.ingressName()}}
	}
	return nil
}

func (r *reconciler) ingressesOfConfig(ctx context.Context, config client.Object) []setpoint.Request {
	return ingressRequests(r.asking(ctx, r.scope(config)))
}

func (r *reconciler) ingressesOfNode(ctx context.Context, _ client.Object) []setpoint.Request {
	return ingressRequests(r.needingNodes(ctx))
}

func ingressRequests(services []corev1.Service) []setpoint.Request {
	requests := make([]setpoint.Request, len(services))
	for i := range services {
		requests[i] = setpoint.Request{Namespace: services[i].Namespace, Name: (&settings{service: &services[i]}).ingressName()}
	}
	return requests
}

func (r *reconciler) configMapsOfService(ctx context.Context, service client.Object) []setpoint.Request {
	requests := r.configMaps(ctx, service.GetNamespace(), client.MatchingFields{serviceIndex: service.GetName()})
	return append(requests, setpoint.RequestFor(service)) // the ConfigMap of its name, if there is one
}

func (r *reconciler) configMapsOfConfig(ctx context.Context, config client.Object) []setpoint.Request {
	return r.configMaps(ctx, r.scope(config), client.MatchingFields{injectingIndex: "true"})
}

// configMaps names the ConfigMaps that an index finds.
func (r *reconciler) configMaps(ctx context.Context, namespace string, by client.MatchingFields) []setpoint.Request {
	var found corev1.ConfigMapList
	if err := r.client.List(ctx, &found, client.InNamespace(namespace), by, client.AllowStale); err != nil {
		setpoint.Logger(ctx).Error("Finding the ConfigMaps that ask for URLs", "namespace", namespace, "error", err)
	}
	requests := make([]setpoint.Request, len(found.Items))
	for i := range found.Items {
		requests[i] = setpoint.RequestFor(&found.Items[i])
	}
	return requests
}
