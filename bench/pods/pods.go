// Package pods makes the Pods that the benchmarks work on: realistic in size and shape, all different, the same in every run.
package pods

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PerApp is how many Pods share the value of the label "app".
const PerApp = 100

// Namespaces is over how many namespaces the Pods spread.
const Namespaces = 20

// Namespace returns the name of the i-th namespace.
func Namespace(i int) string { return fmt.Sprintf("team-%02d", i%Namespaces) }

// App returns the value of the i-th Pod's label "app".
func App(i int) string { return fmt.Sprintf("app-%d", i/PerApp) }

// Pod returns the i-th Pod: two containers with 15 variables each, resources, probes, ports, a volume and a toleration,
// as a Deployment's Pods have them; about 2.6 KB encoded once the server has set its defaults.
func Pod(i int) *corev1.Pod {
	app := App(i)
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: Namespace(i / PerApp),
			Name:      fmt.Sprintf("%s-7d4b9c6f5d-%05d", app, i),
			Labels: map[string]string{
				"app": app, "app.kubernetes.io/instance": app, "app.kubernetes.io/managed-by": "helm", "pod-template-hash": "7d4b9c6f5d",
			},
			Annotations: map[string]string{
				"prometheus.io/scrape": "true", "prometheus.io/port": "9090",
				"checksum/config": fmt.Sprintf("%064x", i*7919),
			},
		},
		Spec: corev1.PodSpec{
			NodeName:   fmt.Sprintf("node-%03d", i%250),
			Containers: []corev1.Container{container("web", app, i), container("sidecar", app, i)},
			Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: app + "-config"},
			}}}},
			Tolerations: []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpEqual, Value: "web", Effect: corev1.TaintEffectNoSchedule}},
		},
	}
}

func container(name, app string, i int) corev1.Container {
	c := corev1.Container{
		Name:  name,
		Image: fmt.Sprintf("registry.example.com/%s/%s:v1.%d.%d", app, name, i%40, i%7),
		Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
		},
		VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/" + name}},
	}
	for v := range 15 {
		c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("%s_SETTING_%02d", name, v), Value: fmt.Sprintf("value-%d-of-%s", i*v, app)})
	}
	return c
}

// Running returns the status of the i-th Pod once it runs.
func Running(i int) corev1.PodStatus {
	since := metav1.NewTime(time.Unix(1_700_000_000+int64(i), 0))
	status := corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: fmt.Sprintf("10.%d.%d.%d", i>>16&255, i>>8&255, i&255), HostIP: fmt.Sprintf("192.0.2.%d", i%250), StartTime: &since,
	}
	for _, t := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: t, Status: corev1.ConditionTrue, LastTransitionTime: since})
	}
	for _, name := range []string{"web", "sidecar"} {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: name, Ready: true, ContainerID: fmt.Sprintf("containerd://%064x", i), ImageID: fmt.Sprintf("registry.example.com/%s@sha256:%064x", name, i),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: since}},
		})
	}
	return status
}
