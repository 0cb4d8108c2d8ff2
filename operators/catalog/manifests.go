package catalog

import (
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// The ports on which an installed operator serves its health, its metrics and its webhooks.
const (
	healthPort  = 8081
	metricsPort = 8443
	webhookPort = 9443
)

// Installation is how an operator is installed in a cluster.
type Installation struct {
	// Image has the commands of setpoint as its entrypoint, as that of `make image` does.
	Image string
	// Namespace is that of the operator itself; what it works on is up to its options. Empty: Namespace.
	Namespace string
	// Replicas are how many there are, one of which leads. Zero: 2.
	Replicas int32
	// Metrics has metrics served, to those whom RBAC allows to get /metrics. It binds the ClusterRole system:auth-delegator.
	Metrics bool
	// Debug has the debug endpoint served beside the metrics.
	Debug bool
	// Args are further arguments of `setpoint run`.
	Args []string
}

func (i Installation) complete() (Installation, error) {
	var errs []error
	if i.Image == "" {
		errs = append(errs, errors.New("no image is given"))
	}
	if i.Namespace == "" {
		i.Namespace = Namespace
	}
	if problems := validation.IsDNS1123Label(i.Namespace); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("%q is no name of a namespace: %s", i.Namespace, strings.Join(problems, ", ")))
	}
	if i.Replicas == 0 {
		i.Replicas = 2
	}
	if i.Replicas < 0 {
		errs = append(errs, fmt.Errorf("invalid number of replicas %d", i.Replicas))
	}
	if i.Debug && !i.Metrics {
		errs = append(errs, errors.New("the debug endpoint is served beside the metrics, which are off"))
	}
	return i, errors.Join(errs...)
}

// Manifests returns, as YAML, all that has to be applied to have the operator run in a cluster: its kinds, its rights and
// its Deployment.
func (o Operator) Manifests(i Installation) (string, error) {
	i, err := i.complete()
	if err != nil {
		return "", fmt.Errorf("manifests of the operator %s: %w", o.Name, err)
	}
	documents, err := o.installed(i.Namespace)
	if err != nil {
		return "", fmt.Errorf("manifests of the operator %s: %w", o.Name, err)
	}
	objects := []runtime.Object{o.deployment(i)}
	if i.Metrics {
		objects = append(objects, o.delegation(i), o.metricsService(i))
	}
	for _, obj := range objects {
		document, err := document(obj)
		if err != nil {
			return "", fmt.Errorf("manifests of the operator %s: %w", o.Name, err)
		}
		documents = append(documents, document)
	}
	var all strings.Builder
	for _, d := range documents {
		if d = strings.TrimPrefix(strings.TrimSpace(d), "---\n"); d != "" {
			fmt.Fprintf(&all, "---\n%s\n", d)
		}
	}
	return all.String(), nil
}

// installed returns what has to be there before the operator runs in a cluster: kinds, rights, and the way to its webhooks.
func (o Operator) installed(namespace string) ([]string, error) {
	in := func(document string) string { return strings.ReplaceAll(document, Namespace, namespace) }
	documents := []string{in(o.rbac)}
	if o.webhooks == nil {
		return append(documents, o.crd), nil
	}
	hooks, err := o.webhooks.manifests("", nil)
	return append(documents, in(o.webhooks.rbac), in(hooks)), err
}

// document returns obj as YAML, without the status that a new object does not have.
func document(obj runtime.Object) (string, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return "", err
	}
	delete(content, "status")
	text, err := yaml.Marshal(content)
	return string(text), err
}

func (o Operator) labels() map[string]string {
	return map[string]string{"app.kubernetes.io/name": o.ObjectName(), "app.kubernetes.io/part-of": "setpoint"}
}

func (o Operator) meta(i Installation) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: i.Namespace, Name: o.ObjectName(), Labels: o.labels()}
}

func (o Operator) deployment(i Installation) *appsv1.Deployment {
	selector := &metav1.LabelSelector{MatchLabels: o.labels()}
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: o.meta(i),
		Spec: appsv1.DeploymentSpec{
			Replicas: &i.Replicas,
			Selector: selector,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: o.labels()},
				Spec: corev1.PodSpec{
					ServiceAccountName: o.ObjectName(),
					Containers:         []corev1.Container{o.container(i)},
					SecurityContext: &corev1.PodSecurityContext{
						RunAsNonRoot:   new(true),
						RunAsUser:      new(int64(65532)),
						SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
					},
					TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
						MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: selector,
					}},
				},
			},
		},
	}
}

func (o Operator) container(i Installation) corev1.Container {
	args := []string{"run", o.Name, fmt.Sprintf("--health-address=0.0.0.0:%d", healthPort), "--log-format=json"}
	ports := []corev1.ContainerPort{{Name: "health", ContainerPort: healthPort}}
	if i.Debug {
		args = append(args, "--debug")
	}
	if i.Metrics {
		args = append(args, fmt.Sprintf("--metrics-address=0.0.0.0:%d", metricsPort))
		ports = append(ports, corev1.ContainerPort{Name: "metrics", ContainerPort: metricsPort})
	}
	if o.webhooks != nil {
		args = append(args, fmt.Sprintf("--webhook-address=0.0.0.0:%d", webhookPort))
		ports = append(ports, corev1.ContainerPort{Name: "webhooks", ContainerPort: webhookPort})
	}
	return corev1.Container{
		Name:  "operator",
		Image: i.Image,
		Args:  append(args, i.Args...),
		Env: []corev1.EnvVar{{Name: "POD_NAMESPACE", ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"},
		}}},
		Ports:          ports,
		LivenessProbe:  probe("/healthz", 20),
		ReadinessProbe: probe("/readyz", 10),
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
		},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false),
			ReadOnlyRootFilesystem:   new(true),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}

func probe(path string, period int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("health")}},
		PeriodSeconds: period,
	}
}

// delegation lets the operator ask the server who a reader of its metrics is and what that may do.
func (o Operator) delegation(i Installation) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: o.ObjectName() + "-auth-delegator", Labels: o.labels()},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:auth-delegator"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: i.Namespace, Name: o.ObjectName()}},
	}
}

func (o Operator) metricsService(i Installation) *corev1.Service {
	meta := o.meta(i)
	meta.Name += "-metrics"
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: meta,
		Spec: corev1.ServiceSpec{
			Selector: o.labels(),
			Ports:    []corev1.ServicePort{{Name: "metrics", Port: metricsPort, TargetPort: intstr.FromString("metrics")}},
		},
	}
}
