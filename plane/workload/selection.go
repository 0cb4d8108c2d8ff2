package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// loop is one blocking part of a controller. It returns when ctx has ended and
// everything it started has.
type loop func(ctx context.Context)

// controller is one entry of the catalogue.
type controller struct {
	name string
	// build makes the controller and registers its interest in informers; nothing
	// runs before its loops do.
	build func(ctx context.Context, e *environment) ([]loop, error)
}

// catalogue lists every controller there is, sorted by name.
func catalogue() []controller {
	return []controller{
		{"clusterrole-aggregation", buildClusterRoleAggregation},
		{"cronjob", buildCronJob},
		{"daemonset", buildDaemonSet},
		{"deployment", buildDeployment},
		{"disruption", buildDisruption},
		{"endpoints", buildEndpoints},
		{"endpointslice", buildEndpointSlice},
		{"endpointslice-mirroring", buildEndpointSliceMirroring},
		{"ephemeral-volume", buildEphemeralVolume},
		{"garbage-collector", buildGarbageCollector},
		{"job", buildJob},
		{"namespace", buildNamespace},
		{"persistentvolume-binder", buildPersistentVolumeBinder},
		{"persistentvolume-protection", buildPersistentVolumeProtection},
		{"persistentvolume-provisioner", buildPersistentVolumeProvisioner},
		{"persistentvolumeclaim-protection", buildPersistentVolumeClaimProtection},
		{"pod-garbage-collector", buildPodGarbageCollector},
		{"replicaset", buildReplicaSet},
		{"replicationcontroller", buildReplicationController},
		{"resourcequota", buildResourceQuota},
		{"root-ca-certificate-publisher", buildRootCAPublisher},
		{"service-cidr", buildServiceCIDR},
		{"serviceaccount", buildServiceAccount},
		{"serviceaccount-token", buildServiceAccountToken},
		{"statefulset", buildStatefulSet},
		{"ttl-after-finished", buildTTLAfterFinished},
		{"validatingadmissionpolicy-status", buildValidatingAdmissionPolicyStatus},
	}
}

// Names lists every controller there is, sorted.
func Names() []string {
	var names []string
	for _, c := range catalogue() {
		names = append(names, c.name)
	}
	return names
}

// selectControllers applies Config.Controllers. Every name that does not exist is
// an error of its own; the names that do are in the last one.
func selectControllers(wanted []string) ([]controller, error) {
	all := catalogue()
	known := Names()
	included, excluded := map[string]bool{}, map[string]bool{}
	var unknown []error
	for _, entry := range wanted {
		name, exclude := strings.CutPrefix(entry, "-")
		switch {
		case !slices.Contains(known, name):
			unknown = append(unknown, fmt.Errorf("workload: there is no controller %q", name))
		case exclude:
			excluded[name] = true
		default:
			included[name] = true
		}
	}
	if len(unknown) > 0 {
		unknown = append(unknown, fmt.Errorf("workload: the controllers are %s", strings.Join(known, ", ")))
		return nil, errors.Join(unknown...)
	}
	return slices.DeleteFunc(all, func(c controller) bool {
		return excluded[c.name] || len(included) > 0 && !included[c.name]
	}), nil
}
