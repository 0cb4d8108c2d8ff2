package catalog

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/cache"
	"github.com/setpoint-dev/setpoint/operators/expose"
	"github.com/setpoint-dev/setpoint/operators/foo"
	"github.com/setpoint-dev/setpoint/operators/memcached"
	"github.com/setpoint-dev/setpoint/operators/reload"
	"github.com/setpoint-dev/setpoint/operators/replicaset"
)

// All returns the operators by name, with their default options.
func All() []Operator {
	return []Operator{newExpose(), newFoo(), newMemcached(), newReload(), newReplicaSet()}
}

func newExpose() Operator {
	options := &expose.Options{}
	return Operator{
		Name: expose.Name, Summary: "gives Services a URL: an Ingress, an HTTPRoute, a node port or a load balancer",
		rbac: expose.RBAC(), addToScheme: expose.AddToScheme, flags: options.AddFlags, kinds: expose.Kinds,
		setup: func(m *setpoint.Manager, namespace string) error {
			o := *options
			if o.Namespace == "" || o.Namespace == expose.DefaultNamespace {
				o.Namespace = namespace
			}
			return expose.Setup(m, o)
		},
		Cleanup: expose.Cleanup,
	}
}

func newFoo() Operator {
	return Operator{
		Name: foo.Name, Summary: "a sample: each Foo owns a Deployment",
		crd: foo.CRD(), rbac: foo.RBAC(), addToScheme: foo.AddToScheme,
		setup: func(m *setpoint.Manager, _ string) error { return foo.Setup(m) },
	}
}

func newMemcached() Operator {
	return Operator{
		Name: memcached.Name, Summary: "runs memcached: a Memcached is a StatefulSet of nodes, a Service and a disruption budget",
		crd: memcached.CRD(), rbac: memcached.RBAC(), addToScheme: memcached.AddToScheme, kinds: memcached.Kinds,
		setup: func(m *setpoint.Manager, _ string) error { return memcached.Setup(m) },
		webhooks: &webhooks{
			rbac: memcached.WebhookRBAC(), manifests: memcached.WebhookManifests,
			add: func(m *setpoint.Manager, cfg setpoint.Config, at Place) error {
				_, err := memcached.Webhooks(m, memcached.WebhookOptions{
					Listener: at.WebhookListener, Address: at.WebhookAddress, Certificates: at.WebhookCertificates, Namespace: at.Namespace,
					GracePeriod: max(cfg.GracePeriod, 0), Logger: cfg.Logger,
				})
				return err
			},
		},
	}
}

func newReload() Operator {
	options := &reload.Options{}
	return Operator{
		Name: reload.Name, Summary: "rolls workloads whose ConfigMaps or Secrets have changed",
		rbac: reload.RBAC(), addToScheme: reload.AddToScheme, flags: options.AddFlags,
		kinds: func() map[schema.GroupKind]cache.Options { return reload.Kinds(*options) },
		setup: func(m *setpoint.Manager, namespace string) error {
			o := *options
			if o.Key == (types.NamespacedName{}) {
				o.Key = types.NamespacedName{Namespace: namespace, Name: reload.DefaultKeyName}
			}
			return reload.Setup(m, o)
		},
	}
}

func newReplicaSet() Operator {
	return Operator{
		Name: replicaset.Name, Summary: "keeps the Pods of ReplicaSets, in place of Kubernetes' own controller",
		Replaces: "replicaset",
		rbac:     replicaset.RBAC(), addToScheme: replicaset.AddToScheme, kinds: replicaset.Kinds,
		setup: func(m *setpoint.Manager, _ string) error { return replicaset.Setup(m) },
	}
}
