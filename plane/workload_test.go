package plane_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/setpoint-dev/setpoint/plane"
	"github.com/setpoint-dev/setpoint/plane/node"
)

// patience bounds every wait of these tests. It is long because the machine may
// be busy; nothing takes it in full unless it is broken.
const patience = time.Minute

// cluster is a plane with two nodes and a namespace of the test's own.
type cluster struct {
	*testing.T
	kubernetes.Interface
	dynamic   dynamic.Interface
	namespace string
}

// inNamespace runs a subtest in its own namespace of the plane.
func inNamespace(t *testing.T, p *plane.Plane, name string, test func(c cluster)) {
	t.Run(name, func(t *testing.T) {
		client, err := kubernetes.NewForConfig(p.RESTConfig())
		if err != nil {
			t.Fatal(err)
		}
		dynamicClient, err := dynamic.NewForConfig(p.RESTConfig())
		if err != nil {
			t.Fatal(err)
		}
		c := cluster{T: t, Interface: client, dynamic: dynamicClient, namespace: name}
		must(client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))(t)
		wait(c, client.CoreV1().ServiceAccounts(name).Watch, "default", func(*corev1.ServiceAccount) bool { return true })
		test(c)
	})
}

func startPlane(t *testing.T, config plane.Config) *plane.Plane {
	t.Helper()
	p, err := plane.New(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p
}

func must[T any](value T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

type watchFunc = func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)

// wait watches the named object until it satisfies ok, and returns it then.
func wait[T runtime.Object](c cluster, start watchFunc, name string, ok func(T) bool) T {
	c.Helper()
	var last T
	await(c, start, name, func(e watch.Event) bool {
		object, isT := e.Object.(T)
		if e.Type != watch.Deleted && isT {
			last = object
			return ok(object)
		}
		return false
	})
	return last
}

// waitGone watches until no object of that name is left.
func waitGone(c cluster, start watchFunc, get func() error, name string) {
	c.Helper()
	if apierrors.IsNotFound(get()) {
		return
	}
	await(c, start, name, func(e watch.Event) bool { return e.Type == watch.Deleted || apierrors.IsNotFound(get()) })
}

func await(c cluster, start watchFunc, name string, ok func(watch.Event) bool) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), patience)
	defer cancel()
	var last any
	options := metav1.ListOptions{}
	if name != "" {
		options.FieldSelector = "metadata.name=" + name
	}
	w, err := start(ctx, options)
	if err != nil {
		c.Fatal(err)
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		last = e
		if ok(e) {
			return
		}
	}
	state, _ := json.MarshalIndent(last, "", " ")
	c.Fatalf("waited %s for %s in vain; last seen: %s", patience, name, state)
}

func podTemplate(labels map[string]string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "nginx:latest"}}},
	}
}

func deployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: podTemplate(labels),
		},
	}
}

func TestWorkloads(t *testing.T) {
	p := startPlane(t, plane.Config{Nodes: node.Config{Count: 2}})

	inNamespace(t, p, "deployment", func(c cluster) {
		begin := time.Now()
		must(c.AppsV1().Deployments(c.namespace).Create(c.Context(), deployment("web", 10), metav1.CreateOptions{}))(c.T)
		wait(c, c.AppsV1().Deployments(c.namespace).Watch, "web", func(d *appsv1.Deployment) bool {
			return d.Status.AvailableReplicas == 10 && d.Status.ObservedGeneration == d.Generation
		})
		c.Log("10 replicas available after", time.Since(begin))

		must(c.CoreV1().Services(c.namespace).Create(c.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}}},
		}, metav1.CreateOptions{}))(c.T)
		wait(c, c.DiscoveryV1().EndpointSlices(c.namespace).Watch, "", func(s *discoveryv1.EndpointSlice) bool {
			return len(s.Endpoints) == 10 && !slices.ContainsFunc(s.Endpoints, func(e discoveryv1.Endpoint) bool { return !*e.Conditions.Ready })
		})
		wait(c, c.CoreV1().Endpoints(c.namespace).Watch, "web", func(e *corev1.Endpoints) bool {
			return len(e.Subsets) == 1 && len(e.Subsets[0].Addresses) == 10
		})

		perNode := map[string]int{}
		addresses := map[string]bool{}
		pods := must(c.CoreV1().Pods(c.namespace).List(c.Context(), metav1.ListOptions{}))(c.T)
		for _, pod := range pods.Items {
			perNode[pod.Spec.NodeName]++
			addresses[pod.Status.PodIP] = true
		}
		if perNode["node-0"] != 5 || perNode["node-1"] != 5 || len(addresses) != 10 {
			c.Errorf("Pods are not spread over the nodes, with an address each: %v, %v", perNode, addresses)
		}

		patch := []byte(`{"spec":{"replicas":2,"template":{"spec":{"containers":[{"name":"app","image":"nginx:2"}]}}}}`)
		must(c.AppsV1().Deployments(c.namespace).Patch(c.Context(), "web", "application/strategic-merge-patch+json", patch, metav1.PatchOptions{}))(c.T)
		wait(c, c.AppsV1().Deployments(c.namespace).Watch, "web", func(d *appsv1.Deployment) bool {
			return d.Status.UpdatedReplicas == 2 && d.Status.Replicas == 2 && d.Status.AvailableReplicas == 2
		})
	})

	inNamespace(t, p, "statefulset", func(c cluster) {
		labels := map[string]string{"app": "db"}
		set := &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Name: "db"},
			Spec: appsv1.StatefulSetSpec{
				Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: podTemplate(labels),
				VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
					ObjectMeta: metav1.ObjectMeta{Name: "data"},
					Spec: corev1.PersistentVolumeClaimSpec{
						AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
						Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
					},
				}},
			},
		}
		set.Spec.Template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
		begin := time.Now()
		must(c.AppsV1().StatefulSets(c.namespace).Create(c.Context(), set, metav1.CreateOptions{}))(c.T)
		wait(c, c.AppsV1().StatefulSets(c.namespace).Watch, "db", func(s *appsv1.StatefulSet) bool { return s.Status.ReadyReplicas == 2 })
		c.Log("2 replicas with volumes ready after", time.Since(begin))
		claim := wait(c, c.CoreV1().PersistentVolumeClaims(c.namespace).Watch, "data-db-1", func(pvc *corev1.PersistentVolumeClaim) bool {
			return pvc.Status.Phase == corev1.ClaimBound && *pvc.Spec.StorageClassName == "standard"
		})
		if err := c.AppsV1().StatefulSets(c.namespace).Delete(c.Context(), "db", metav1.DeleteOptions{}); err != nil {
			c.Fatal(err)
		}
		if err := c.CoreV1().PersistentVolumeClaims(c.namespace).Delete(c.Context(), "data-db-1", metav1.DeleteOptions{}); err != nil {
			c.Fatal(err)
		}
		waitGone(c, c.CoreV1().PersistentVolumes().Watch, func() error {
			_, err := c.CoreV1().PersistentVolumes().Get(c.Context(), claim.Spec.VolumeName, metav1.GetOptions{})
			return err
		}, claim.Spec.VolumeName)
	})

	inNamespace(t, p, "daemonset", func(c cluster) {
		labels := map[string]string{"app": "agent"}
		must(c.AppsV1().DaemonSets(c.namespace).Create(c.Context(), &appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Name: "agent"},
			Spec:       appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: podTemplate(labels)},
		}, metav1.CreateOptions{}))(c.T)
		wait(c, c.AppsV1().DaemonSets(c.namespace).Watch, "agent", func(d *appsv1.DaemonSet) bool {
			return d.Status.DesiredNumberScheduled == 2 && d.Status.NumberAvailable == 2
		})
	})

	inNamespace(t, p, "job", func(c cluster) {
		template := podTemplate(nil)
		template.Spec.RestartPolicy = corev1.RestartPolicyNever
		begin := time.Now()
		must(c.BatchV1().Jobs(c.namespace).Create(c.Context(), &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: "once"},
			Spec:       batchv1.JobSpec{Template: template, Completions: new(int32(3)), Parallelism: new(int32(2)), TTLSecondsAfterFinished: new(int32(0))},
		}, metav1.CreateOptions{}))(c.T)
		completed := false
		await(c, c.BatchV1().Jobs(c.namespace).Watch, "once", func(e watch.Event) bool {
			job := e.Object.(*batchv1.Job)
			completed = completed || slices.ContainsFunc(job.Status.Conditions, func(condition batchv1.JobCondition) bool {
				return condition.Type == batchv1.JobComplete && job.Status.Succeeded == 3
			})
			return completed && e.Type == watch.Deleted
		})
		c.Log("3 completions, and gone, after", time.Since(begin))
	})

	inNamespace(t, p, "cronjob", func(c cluster) {
		template := podTemplate(nil)
		template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
		cron := must(c.BatchV1().CronJobs(c.namespace).Create(c.Context(), &batchv1.CronJob{
			ObjectMeta: metav1.ObjectMeta{Name: "nightly"},
			Spec: batchv1.CronJobSpec{
				Schedule: "* * * * *", Suspend: new(true),
				JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: template}},
			},
		}, metav1.CreateOptions{}))(c.T)
		// Two minutes have been missed, as it were: one Job is due at once.
		cron.Status.LastScheduleTime = &metav1.Time{Time: time.Now().Add(-2 * time.Minute)}
		cron = must(c.BatchV1().CronJobs(c.namespace).UpdateStatus(c.Context(), cron, metav1.UpdateOptions{}))(c.T)
		cron.Spec.Suspend = new(false)
		must(c.BatchV1().CronJobs(c.namespace).Update(c.Context(), cron, metav1.UpdateOptions{}))(c.T)
		wait(c, c.BatchV1().CronJobs(c.namespace).Watch, "nightly", func(cron *batchv1.CronJob) bool { return cron.Status.LastSuccessfulTime != nil })
	})

	inNamespace(t, p, "quota", func(c cluster) {
		configMaps := c.CoreV1().ConfigMaps(c.namespace)
		wait(c, configMaps.Watch, "kube-root-ca.crt", func(*corev1.ConfigMap) bool { return true })
		must(c.CoreV1().ResourceQuotas(c.namespace).Create(c.Context(), &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Name: "small"},
			Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/configmaps": resource.MustParse("3")}},
		}, metav1.CreateOptions{}))(c.T)
		used := func(n int64) {
			c.Helper()
			wait(c, c.CoreV1().ResourceQuotas(c.namespace).Watch, "small", func(q *corev1.ResourceQuota) bool {
				count, ok := q.Status.Used["count/configmaps"]
				return ok && count.Value() == n
			})
		}
		used(1) // kube-root-ca.crt
		for _, name := range []string{"a", "b"} {
			must(configMaps.Create(c.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))(c.T)
		}
		used(3)
		if _, err := configMaps.Create(c.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
			c.Errorf("a fourth ConfigMap: %v, want it forbidden", err)
		}
		if err := configMaps.Delete(c.Context(), "a", metav1.DeleteOptions{}); err != nil {
			c.Fatal(err)
		}
		used(2)
	})

	inNamespace(t, p, "disruption", func(c cluster) {
		must(c.AppsV1().Deployments(c.namespace).Create(c.Context(), deployment("web", 3), metav1.CreateOptions{}))(c.T)
		must(c.PolicyV1().PodDisruptionBudgets(c.namespace).Create(c.Context(), &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec: policyv1.PodDisruptionBudgetSpec{
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, MinAvailable: &intstr.IntOrString{IntVal: 2},
			},
		}, metav1.CreateOptions{}))(c.T)
		wait(c, c.PolicyV1().PodDisruptionBudgets(c.namespace).Watch, "web", func(b *policyv1.PodDisruptionBudget) bool {
			return b.Status.ExpectedPods == 3 && b.Status.CurrentHealthy == 3 && b.Status.DisruptionsAllowed == 1
		})
	})

	inNamespace(t, p, "accounts", func(c cluster) {
		wait(c, c.CoreV1().ConfigMaps(c.namespace).Watch, "kube-root-ca.crt", func(m *corev1.ConfigMap) bool { return m.Data["ca.crt"] != "" })
		must(c.CoreV1().Secrets(c.namespace).Create(c.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "token", Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}},
			Type:       corev1.SecretTypeServiceAccountToken,
		}, metav1.CreateOptions{}))(c.T)
		secret := wait(c, c.CoreV1().Secrets(c.namespace).Watch, "token", func(s *corev1.Secret) bool { return len(s.Data["token"]) > 0 })
		config := p.RESTConfig()
		config.BearerToken = string(secret.Data["token"])
		asAccount, err := kubernetes.NewForConfig(config)
		if err != nil {
			c.Fatal(err)
		}
		if _, err := asAccount.CoreV1().Pods(c.namespace).List(c.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			c.Errorf("listing Pods with a token that may do nothing: %v, want it forbidden", err)
		}
	})

	for _, propagation := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground} {
		inNamespace(t, p, "gc-"+strings.ToLower(string(propagation)), func(c cluster) {
			must(c.AppsV1().Deployments(c.namespace).Create(c.Context(), deployment("web", 2), metav1.CreateOptions{}))(c.T)
			wait(c, c.AppsV1().Deployments(c.namespace).Watch, "web", func(d *appsv1.Deployment) bool { return d.Status.AvailableReplicas == 2 })
			begin := time.Now()
			if err := c.AppsV1().Deployments(c.namespace).Delete(c.Context(), "web", metav1.DeleteOptions{PropagationPolicy: &propagation}); err != nil {
				c.Fatal(err)
			}
			gone := 0
			await(c, c.CoreV1().Pods(c.namespace).Watch, "", func(e watch.Event) bool {
				if e.Type == watch.Deleted {
					gone++
				}
				return gone == 2
			})
			waitGone(c, c.AppsV1().Deployments(c.namespace).Watch, func() error {
				_, err := c.AppsV1().Deployments(c.namespace).Get(c.Context(), "web", metav1.GetOptions{})
				return err
			}, "web")
			c.Log(propagation, "deletion done after", time.Since(begin))
		})
	}

	inNamespace(t, p, "gc-orphan", func(c cluster) {
		must(c.AppsV1().Deployments(c.namespace).Create(c.Context(), deployment("web", 1), metav1.CreateOptions{}))(c.T)
		wait(c, c.AppsV1().Deployments(c.namespace).Watch, "web", func(d *appsv1.Deployment) bool { return d.Status.AvailableReplicas == 1 })
		orphan := metav1.DeletePropagationOrphan
		if err := c.AppsV1().Deployments(c.namespace).Delete(c.Context(), "web", metav1.DeleteOptions{PropagationPolicy: &orphan}); err != nil {
			c.Fatal(err)
		}
		wait(c, c.AppsV1().ReplicaSets(c.namespace).Watch, "", func(rs *appsv1.ReplicaSet) bool {
			return len(rs.OwnerReferences) == 0 && rs.Status.AvailableReplicas == 1
		})
	})

	inNamespace(t, p, "gc-custom", func(c cluster) {
		// Twice: the second definition comes back with what the first left behind.
		for range 2 {
			widgets := c.defineWidgets()
			owner := must(widgets.Create(c.Context(), widget("owner", nil), metav1.CreateOptions{}))(c.T)
			begin := time.Now()
			must(widgets.Create(c.Context(), widget("dependent", owner), metav1.CreateOptions{}))(c.T)
			must(c.CoreV1().ConfigMaps(c.namespace).Create(c.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				Name: "dependent", OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GroupVersionKind())},
			}}, metav1.CreateOptions{}))(c.T)
			if err := widgets.Delete(c.Context(), "owner", metav1.DeleteOptions{}); err != nil {
				c.Fatal(err)
			}
			waitGone(c, c.CoreV1().ConfigMaps(c.namespace).Watch, func() error {
				_, err := c.CoreV1().ConfigMaps(c.namespace).Get(c.Context(), "dependent", metav1.GetOptions{})
				return err
			}, "dependent")
			waitGone(c, widgets.Watch, func() error {
				_, err := widgets.Get(c.Context(), "dependent", metav1.GetOptions{})
				return err
			}, "dependent")
			c.Log("dependents of a custom resource gone after", time.Since(begin))
			c.removeWidgets()
		}
	})

	inNamespace(t, p, "namespace", func(c cluster) {
		widgets := c.defineWidgets()
		must(widgets.Create(c.Context(), widget("w", nil), metav1.CreateOptions{}))(c.T)
		must(c.AppsV1().Deployments(c.namespace).Create(c.Context(), deployment("web", 3), metav1.CreateOptions{}))(c.T)
		wait(c, c.AppsV1().Deployments(c.namespace).Watch, "web", func(d *appsv1.Deployment) bool { return d.Status.AvailableReplicas == 3 })
		begin := time.Now()
		if err := c.CoreV1().Namespaces().Delete(c.Context(), c.namespace, metav1.DeleteOptions{}); err != nil {
			c.Fatal(err)
		}
		waitGone(c, c.CoreV1().Namespaces().Watch, func() error {
			_, err := c.CoreV1().Namespaces().Get(c.Context(), c.namespace, metav1.GetOptions{})
			return err
		}, c.namespace)
		c.Log("namespace gone after", time.Since(begin))
		if pods := must(c.CoreV1().Pods(c.namespace).List(c.Context(), metav1.ListOptions{}))(c.T); len(pods.Items) > 0 {
			c.Errorf("the namespace is gone and %d of its Pods are not", len(pods.Items))
		}
		if left := must(widgets.List(c.Context(), metav1.ListOptions{}))(c.T); len(left.Items) > 0 {
			c.Errorf("the namespace is gone and %d of its custom resources are not", len(left.Items))
		}
		c.removeWidgets()
	})
}

var (
	widgetResource     = schema.GroupVersionResource{Group: "test.setpoint.dev", Version: "v1", Resource: "widgets"}
	definitionResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// defineWidgets creates a CustomResourceDefinition and returns when it is established.
func (c cluster) defineWidgets() dynamic.ResourceInterface {
	c.Helper()
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": widgetResource.GroupResource().String()},
		"spec": map[string]any{
			"group": widgetResource.Group, "scope": "Namespaced",
			"names": map[string]any{"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{
				"openAPIV3Schema": map[string]any{"type": "object"},
			}}},
		},
	}}
	must(c.dynamic.Resource(definitionResource).Create(c.Context(), definition, metav1.CreateOptions{}))(c.T)
	wait(c, c.dynamic.Resource(definitionResource).Watch, definition.GetName(), func(d *unstructured.Unstructured) bool {
		conditions, _, _ := unstructured.NestedSlice(d.Object, "status", "conditions")
		return slices.ContainsFunc(conditions, func(each any) bool {
			condition := each.(map[string]any)
			return condition["type"] == "Established" && condition["status"] == "True"
		})
	})
	return c.dynamic.Resource(widgetResource).Namespace(c.namespace)
}

func (c cluster) removeWidgets() {
	c.Helper()
	definitions, name := c.dynamic.Resource(definitionResource), widgetResource.GroupResource().String()
	if err := definitions.Delete(c.Context(), name, metav1.DeleteOptions{}); err != nil {
		c.Fatal(err)
	}
	waitGone(c, definitions.Watch, func() error {
		_, err := definitions.Get(c.Context(), name, metav1.GetOptions{})
		return err
	}, name)
}

func widget(name string, owner *unstructured.Unstructured) *unstructured.Unstructured {
	w := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": widgetResource.GroupVersion().String(), "kind": "Widget", "metadata": map[string]any{"name": name},
	}}
	if owner != nil {
		w.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GroupVersionKind())})
	}
	return w
}

// A plane without a controller has everything but what that controller makes.
func TestControllersLeftOut(t *testing.T) {
	p := startPlane(t, plane.Config{Controllers: []string{"-replicaset"}})
	inNamespace(t, p, "web", func(c cluster) {
		must(c.AppsV1().Deployments(c.namespace).Create(c.Context(), deployment("web", 1), metav1.CreateOptions{}))(c.T)
		rs := wait(c, c.AppsV1().ReplicaSets(c.namespace).Watch, "", func(*appsv1.ReplicaSet) bool { return true })
		// The Deployment controller has seen its ReplicaSet, which nobody observes.
		wait(c, c.AppsV1().Deployments(c.namespace).Watch, "web", func(d *appsv1.Deployment) bool { return d.Status.ObservedGeneration == d.Generation })
		rs = must(c.AppsV1().ReplicaSets(c.namespace).Get(c.Context(), rs.Name, metav1.GetOptions{}))(c.T)
		if rs.Status.ObservedGeneration != 0 {
			c.Error("a ReplicaSet is worked on although its controller is left out")
		}
	})
}

func TestUnknownController(t *testing.T) {
	_, err := plane.New(plane.Config{Controllers: []string{"-replicasets"}})
	if err == nil {
		t.Fatal("a controller that does not exist was accepted")
	}
	t.Log(fmt.Sprint(err))
}
