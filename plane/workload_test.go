package plane_test

import (
	"context"
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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/setpoint-dev/setpoint/plane"
	"github.com/setpoint-dev/setpoint/plane/node"
	"github.com/setpoint-dev/setpoint/plane/planetest"
)

// cluster is a plane and a namespace of the test's own.
type cluster struct {
	*testing.T
	kubernetes.Interface
	plane     *plane.Plane
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
		c := cluster{T: t, Interface: client, plane: p, dynamic: dynamicClient, namespace: name}
		must(client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))(t)
		wait(c, "default", func(*corev1.ServiceAccount) bool { return true })
		test(c)
	})
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

// object is a pointer to an API type.
type object[T any] interface {
	*T
	planetest.Object
}

func named[T any, P object[T]](c cluster, name string) P {
	o := P(new(T))
	o.SetNamespace(c.namespace)
	o.SetName(name)
	return o
}

// wait waits until the object of that name, in the test's namespace if its kind
// has one, satisfies ok.
func wait[T any, P object[T]](c cluster, name string, ok func(P) bool) P {
	c.Helper()
	return planetest.Wait(c.T, c.plane, named[T, P](c, name), ok)
}

// waitGone waits until there is no such object.
func waitGone[T any, P object[T]](c cluster, name string) {
	c.Helper()
	planetest.WaitGone(c.T, c.plane, named[T, P](c, name))
}

type watchFunc = func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)

// waitAny watches all objects until one satisfies ok, and returns that.
func waitAny[T any, P object[T]](c cluster, start watchFunc, ok func(P) bool) P {
	c.Helper()
	var found P
	await(c, start, func(e watch.Event) bool {
		object, isP := e.Object.(P)
		if e.Type != watch.Deleted && isP && ok(object) {
			found = object
		}
		return found != nil
	})
	return found
}

// await watches until an event satisfies ok.
func await(c cluster, start watchFunc, ok func(watch.Event) bool) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), planetest.Timeout)
	defer cancel()
	w, err := start(ctx, metav1.ListOptions{})
	if err != nil {
		c.Fatal(err)
	}
	defer w.Stop()
	var last watch.Event
	for last = range w.ResultChan() {
		if ok(last) {
			return
		}
	}
	c.Fatalf("waited %s in vain; the last event was %s of %v", planetest.Timeout, last.Type, last.Object)
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
	p := planetest.Start(t, plane.Config{Nodes: node.Config{Count: 2}})

	inNamespace(t, p, "deployment", func(c cluster) {
		begin := time.Now()
		must(c.AppsV1().Deployments(c.namespace).Create(c.Context(), deployment("web", 10), metav1.CreateOptions{}))(c.T)
		wait(c, "web", func(d *appsv1.Deployment) bool {
			return d.Status.AvailableReplicas == 10 && d.Status.ObservedGeneration == d.Generation
		})
		c.Log("10 replicas available after", time.Since(begin))

		must(c.CoreV1().Services(c.namespace).Create(c.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}}},
		}, metav1.CreateOptions{}))(c.T)
		waitAny(c, c.DiscoveryV1().EndpointSlices(c.namespace).Watch, func(s *discoveryv1.EndpointSlice) bool {
			return len(s.Endpoints) == 10 && !slices.ContainsFunc(s.Endpoints, func(e discoveryv1.Endpoint) bool { return !*e.Conditions.Ready })
		})
		wait(c, "web", func(e *corev1.Endpoints) bool {
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
		wait(c, "web", func(d *appsv1.Deployment) bool {
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
		wait(c, "db", func(s *appsv1.StatefulSet) bool { return s.Status.ReadyReplicas == 2 })
		c.Log("2 replicas with volumes ready after", time.Since(begin))
		claim := wait(c, "data-db-1", func(pvc *corev1.PersistentVolumeClaim) bool {
			return pvc.Status.Phase == corev1.ClaimBound && *pvc.Spec.StorageClassName == "standard"
		})
		if err := c.AppsV1().StatefulSets(c.namespace).Delete(c.Context(), "db", metav1.DeleteOptions{}); err != nil {
			c.Fatal(err)
		}
		if err := c.CoreV1().PersistentVolumeClaims(c.namespace).Delete(c.Context(), "data-db-1", metav1.DeleteOptions{}); err != nil {
			c.Fatal(err)
		}
		waitGone[corev1.PersistentVolume](c, claim.Spec.VolumeName)
	})

	inNamespace(t, p, "daemonset", func(c cluster) {
		labels := map[string]string{"app": "agent"}
		must(c.AppsV1().DaemonSets(c.namespace).Create(c.Context(), &appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Name: "agent"},
			Spec:       appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: podTemplate(labels)},
		}, metav1.CreateOptions{}))(c.T)
		wait(c, "agent", func(d *appsv1.DaemonSet) bool {
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
		await(c, c.BatchV1().Jobs(c.namespace).Watch, func(e watch.Event) bool {
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
		wait(c, "nightly", func(cron *batchv1.CronJob) bool { return cron.Status.LastSuccessfulTime != nil })
	})

	inNamespace(t, p, "quota", func(c cluster) {
		secrets := c.CoreV1().Secrets(c.namespace)
		must(c.CoreV1().ResourceQuotas(c.namespace).Create(c.Context(), &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Name: "small"},
			Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/secrets": resource.MustParse("3")}},
		}, metav1.CreateOptions{}))(c.T)
		used := func(n int64) {
			c.Helper()
			wait(c, "small", func(q *corev1.ResourceQuota) bool {
				count, ok := q.Status.Used["count/secrets"]
				return ok && count.Value() == n
			})
		}
		used(0)
		for _, name := range []string{"a", "b", "c"} {
			must(secrets.Create(c.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))(c.T)
		}
		used(3)
		if _, err := secrets.Create(c.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "d"}}, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
			c.Errorf("a fourth Secret: %v, want it forbidden", err)
		}
		if err := secrets.Delete(c.Context(), "a", metav1.DeleteOptions{}); err != nil {
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
		wait(c, "web", func(b *policyv1.PodDisruptionBudget) bool {
			return b.Status.ExpectedPods == 3 && b.Status.CurrentHealthy == 3 && b.Status.DisruptionsAllowed == 1
		})
	})

	inNamespace(t, p, "accounts", func(c cluster) {
		wait(c, "kube-root-ca.crt", func(m *corev1.ConfigMap) bool { return m.Data["ca.crt"] != "" })
		must(c.CoreV1().Secrets(c.namespace).Create(c.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "token", Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}},
			Type:       corev1.SecretTypeServiceAccountToken,
		}, metav1.CreateOptions{}))(c.T)
		secret := wait(c, "token", func(s *corev1.Secret) bool { return len(s.Data["token"]) > 0 })
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
			wait(c, "web", func(d *appsv1.Deployment) bool { return d.Status.AvailableReplicas == 2 })
			pods := must(c.CoreV1().Pods(c.namespace).List(c.Context(), metav1.ListOptions{}))(c.T)
			begin := time.Now()
			if err := c.AppsV1().Deployments(c.namespace).Delete(c.Context(), "web", metav1.DeleteOptions{PropagationPolicy: &propagation}); err != nil {
				c.Fatal(err)
			}
			for i := range pods.Items {
				planetest.WaitGone(c.T, c.plane, &pods.Items[i])
			}
			waitGone[appsv1.Deployment](c, "web")
			c.Log(propagation, "deletion done after", time.Since(begin))
		})
	}

	inNamespace(t, p, "gc-orphan", func(c cluster) {
		must(c.AppsV1().Deployments(c.namespace).Create(c.Context(), deployment("web", 1), metav1.CreateOptions{}))(c.T)
		wait(c, "web", func(d *appsv1.Deployment) bool { return d.Status.AvailableReplicas == 1 })
		orphan := metav1.DeletePropagationOrphan
		if err := c.AppsV1().Deployments(c.namespace).Delete(c.Context(), "web", metav1.DeleteOptions{PropagationPolicy: &orphan}); err != nil {
			c.Fatal(err)
		}
		waitAny(c, c.AppsV1().ReplicaSets(c.namespace).Watch, func(rs *appsv1.ReplicaSet) bool {
			return len(rs.OwnerReferences) == 0 && rs.Status.AvailableReplicas == 1
		})
	})

	inNamespace(t, p, "gc-custom", func(c cluster) {
		// Twice: the second definition comes back with what the first left behind.
		for range 2 {
			widgets := c.defineWidgets()
			owner := must(widgets.Create(c.Context(), widget("owner", nil), metav1.CreateOptions{}))(c.T)
			begin := time.Now()
			dependent := must(widgets.Create(c.Context(), widget("dependent", owner), metav1.CreateOptions{}))(c.T)
			must(c.CoreV1().ConfigMaps(c.namespace).Create(c.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				Name: "dependent", OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GroupVersionKind())},
			}}, metav1.CreateOptions{}))(c.T)
			if err := widgets.Delete(c.Context(), "owner", metav1.DeleteOptions{}); err != nil {
				c.Fatal(err)
			}
			waitGone[corev1.ConfigMap](c, "dependent")
			planetest.WaitGone(c.T, c.plane, dependent)
			c.Log("dependents of a custom resource gone after", time.Since(begin))
			c.removeWidgets()
		}
	})

	inNamespace(t, p, "namespace", func(c cluster) {
		widgets := c.defineWidgets()
		must(widgets.Create(c.Context(), widget("w", nil), metav1.CreateOptions{}))(c.T)
		must(c.AppsV1().Deployments(c.namespace).Create(c.Context(), deployment("web", 3), metav1.CreateOptions{}))(c.T)
		wait(c, "web", func(d *appsv1.Deployment) bool { return d.Status.AvailableReplicas == 3 })
		begin := time.Now()
		if err := c.CoreV1().Namespaces().Delete(c.Context(), c.namespace, metav1.DeleteOptions{}); err != nil {
			c.Fatal(err)
		}
		waitGone[corev1.Namespace](c, c.namespace)
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

// definition is the CustomResourceDefinition of widgets.
var definition = &unstructured.Unstructured{Object: map[string]any{
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

// defineWidgets returns when the kind is established.
func (c cluster) defineWidgets() dynamic.ResourceInterface {
	c.Helper()
	must(c.dynamic.Resource(definitionResource).Create(c.Context(), definition, metav1.CreateOptions{}))(c.T)
	planetest.Wait(c.T, c.plane, definition, func(d *unstructured.Unstructured) bool {
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
	if err := c.dynamic.Resource(definitionResource).Delete(c.Context(), definition.GetName(), metav1.DeleteOptions{}); err != nil {
		c.Fatal(err)
	}
	planetest.WaitGone(c.T, c.plane, definition)
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
	p := planetest.Start(t, plane.Config{Controllers: []string{"-replicaset"}})
	inNamespace(t, p, "web", func(c cluster) {
		must(c.AppsV1().Deployments(c.namespace).Create(c.Context(), deployment("web", 1), metav1.CreateOptions{}))(c.T)
		rs := waitAny(c, c.AppsV1().ReplicaSets(c.namespace).Watch, func(*appsv1.ReplicaSet) bool { return true })
		// The Deployment controller has seen its ReplicaSet, which nobody observes.
		wait(c, "web", func(d *appsv1.Deployment) bool { return d.Status.ObservedGeneration == d.Generation })
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
