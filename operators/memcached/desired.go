package memcached

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	v1 "github.com/setpoint-dev/setpoint/operators/memcached/v1"
)

// nodeLabel is on every Pod of a Memcached, with its name, and selects them. Nothing else selects by it, so that Pods of
// others that are called memcached, too, are not taken for nodes.
const nodeLabel = "cache.setpoint.dev/memcached"

const (
	defaultSize   = 1
	defaultImage  = "memcached:1.6"
	defaultPort   = 11211
	defaultMemory = 64
	minMemory     = 1
	maxMemory     = 1 << 20 // a tebibyte
	mebibyte      = 1 << 20

	// memcachedUser is the user that memcached's images make for it.
	memcachedUser = 11211
	// drainSeconds is for how long a node that stops still serves: until clients no longer find it in the DNS, whose
	// answers live for five seconds by default.
	drainSeconds = 5
)

// complete returns spec with what it leaves open filled in.
func complete(spec v1.MemcachedSpec) v1.MemcachedSpec {
	spec = *spec.DeepCopy()
	if spec.Size == nil {
		spec.Size = new(int32(defaultSize))
	}
	if spec.Image == "" {
		spec.Image = defaultImage
	}
	if spec.ContainerPort == 0 {
		spec.ContainerPort = defaultPort
	}
	if spec.MemoryLimitMB == nil {
		memory := int32(defaultMemory)
		if limit, limited := spec.Resources.Limits[corev1.ResourceMemory]; limited {
			memory = int32(min(max(limit.Value()/4*3/mebibyte, minMemory), maxMemory))
		}
		spec.MemoryLimitMB = &memory
	}
	return spec
}

// resources returns what a node of a complete spec is given. Beside the items, memcached needs memory for hash table and
// connections.
func resources(spec v1.MemcachedSpec) corev1.ResourceRequirements {
	out := *spec.Resources.DeepCopy()
	_, requested := out.Requests[corev1.ResourceMemory]
	_, limited := out.Limits[corev1.ResourceMemory]
	if requested || limited {
		return out
	}
	memory := *spec.MemoryLimitMB
	quantity := inMebibytes(memory + memory/3 + 16)
	if out.Requests == nil {
		out.Requests = corev1.ResourceList{}
	}
	if out.Limits == nil {
		out.Limits = corev1.ResourceList{}
	}
	out.Requests[corev1.ResourceMemory], out.Limits[corev1.ResourceMemory] = quantity, quantity
	return out
}

// nodeLabels returns the labels that select mc's Pods. A StatefulSet's selector never changes, so these depend on nothing
// that can change in a Memcached.
func nodeLabels(mc *v1.Memcached) map[string]string { return map[string]string{nodeLabel: mc.Name} }

// selector returns nodeLabels as the string that the scale subresource serves.
func selector(mc *v1.Memcached) string { return labels.SelectorFromSet(nodeLabels(mc)).String() }

// metadata returns that of every object of mc. The reference to mc does not block mc's deletion: the finalizer awaits what
// has to be awaited, and the operator needs no right to block.
func metadata(mc *v1.Memcached) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: mc.Namespace,
		Name:      mc.Name,
		Labels: map[string]string{
			"app.kubernetes.io/name":       "memcached",
			"app.kubernetes.io/instance":   mc.Name,
			"app.kubernetes.io/managed-by": "setpoint-" + Name,
			nodeLabel:                      mc.Name,
		},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1.GroupVersion.String(), Kind: "Memcached", Name: mc.Name, UID: mc.UID, Controller: new(true),
		}},
	}
}

// service returns the Service by which clients find the nodes.
func service(mc *v1.Memcached) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metadata(mc),
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone,
			Selector:  nodeLabels(mc),
			Ports: []corev1.ServicePort{{
				Name: "memcached", Protocol: corev1.ProtocolTCP, Port: complete(mc.Spec).ContainerPort, TargetPort: intstr.FromString("memcached"),
			}},
		},
	}
}

// disruptionBudget returns the PodDisruptionBudget that lets one node be evicted at a time, and nodes that do not serve
// anyhow at any time.
func disruptionBudget(mc *v1.Memcached) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"},
		ObjectMeta: metadata(mc),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable:             new(intstr.FromInt32(1)),
			Selector:                   &metav1.LabelSelector{MatchLabels: nodeLabels(mc)},
			UnhealthyPodEvictionPolicy: new(policyv1.AlwaysAllow),
		},
	}
}

// statefulSet returns the StatefulSet of the nodes, with the fields that the operator owns and no others.
func statefulSet(mc *v1.Memcached) *appsv1.StatefulSet {
	spec := complete(mc.Spec)
	return &appsv1.StatefulSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"},
		ObjectMeta: metadata(mc),
		Spec: appsv1.StatefulSetSpec{
			Replicas:            spec.Size,
			ServiceName:         mc.Name,
			PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector:            &metav1.LabelSelector{MatchLabels: nodeLabels(mc)},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: metadata(mc).Labels},
				Spec: corev1.PodSpec{
					Containers:                   []corev1.Container{container(spec)},
					AutomountServiceAccountToken: new(false),
					EnableServiceLinks:           new(false),
					SecurityContext: &corev1.PodSecurityContext{
						RunAsNonRoot: new(true), RunAsUser: new(int64(memcachedUser)), RunAsGroup: new(int64(memcachedUser)),
						SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
					},
					TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
						MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
						LabelSelector: &metav1.LabelSelector{MatchLabels: nodeLabels(mc)},
					}},
				},
			},
		},
	}
}

// container returns the container of a node of a complete spec.
func container(spec v1.MemcachedSpec) corev1.Container {
	accepts := corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("memcached")}}
	return corev1.Container{
		Name:      "memcached",
		Image:     spec.Image,
		Args:      arguments(spec),
		Resources: resources(spec),
		Ports:     []corev1.ContainerPort{{Name: "memcached", Protocol: corev1.ProtocolTCP, ContainerPort: spec.ContainerPort}},
		// A node that is busy for a while must not be restarted, which would empty it: liveness is patient.
		LivenessProbe:  &corev1.Probe{ProbeHandler: accepts, PeriodSeconds: 10, TimeoutSeconds: 5, FailureThreshold: 6},
		ReadinessProbe: &corev1.Probe{ProbeHandler: accepts, PeriodSeconds: 5, TimeoutSeconds: 2},
		Lifecycle:      &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: drainSeconds}}},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false),
			ReadOnlyRootFilesystem:   new(true),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}

// arguments returns those of memcached, for a complete spec.
func arguments(spec v1.MemcachedSpec) []string {
	args := []string{"-p", strconv.Itoa(int(spec.ContainerPort)), "-m", strconv.Itoa(int(*spec.MemoryLimitMB))}
	return append(args, spec.ExtraArgs...)
}
