package plane_test

import (
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
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/setpoint-dev/setpoint/plane"
	"github.com/setpoint-dev/setpoint/plane/node"
	"github.com/setpoint-dev/setpoint/plane/planetest"
)

func TestWorkloads(t *testing.T) {
	p := planetest.Start(t, plane.Config{Nodes: node.Config{Count: 2}})
	for _, test := range []struct {
		name string
		run  func(cluster)
	}{
		{"deployment", testDeployment},
		{"statefulset", testStatefulSet},
		{"daemonset", testDaemonSet},
		{"job", testJob},
		{"cronjob", testCronJob},
		{"quota", testQuota},
		{"disruption", testDisruption},
		{"accounts", testAccounts},
		{"background", testCascade(metav1.DeletePropagationBackground)},
		{"foreground", testCascade(metav1.DeletePropagationForeground)},
		{"orphan", testOrphan},
		{"custom-owners", testCustomOwners},
		{"namespace", testNamespace},
	} {
		inNamespace(t, p, test.name, test.run)
	}
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

// A Deployment becomes available, has endpoints, and rolls.
func testDeployment(c cluster) {
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
}

// A StatefulSet gets its volumes, which go with their claims.
func testStatefulSet(c cluster) {
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
}

// A DaemonSet has a Pod on every node.
func testDaemonSet(c cluster) {
	labels := map[string]string{"app": "agent"}
	must(c.AppsV1().DaemonSets(c.namespace).Create(c.Context(), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "agent"},
		Spec:       appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: podTemplate(labels)},
	}, metav1.CreateOptions{}))(c.T)
	wait(c, "agent", func(d *appsv1.DaemonSet) bool {
		return d.Status.DesiredNumberScheduled == 2 && d.Status.NumberAvailable == 2
	})
}

// A Job completes and is removed after its time.
func testJob(c cluster) {
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
}

// A CronJob starts what is due.
func testCronJob(c cluster) {
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
}

// A quota counts what comes and goes.
func testQuota(c cluster) {
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
}

// A budget knows its Pods.
func testDisruption(c cluster) {
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
}

// A namespace has what its Pods need to reach the API.
func testAccounts(c cluster) {
	wait(c, "kube-root-ca.crt", func(m *corev1.ConfigMap) bool { return m.Data["ca.crt"] != "" })
	must(c.CoreV1().Secrets(c.namespace).Create(c.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "token", Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}},
		Type:       corev1.SecretTypeServiceAccountToken,
	}, metav1.CreateOptions{}))(c.T)
	secret := wait(c, "token", func(s *corev1.Secret) bool { return len(s.Data["token"]) > 0 })
	config := c.plane.RESTConfig()
	config.BearerToken = string(secret.Data["token"])
	asAccount, err := kubernetes.NewForConfig(config)
	if err != nil {
		c.Fatal(err)
	}
	if _, err := asAccount.CoreV1().Pods(c.namespace).List(c.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		c.Errorf("listing Pods with a token that may do nothing: %v, want it forbidden", err)
	}
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
	if !strings.Contains(err.Error(), "replicaset") {
		t.Errorf("the error does not name it: %v", err)
	}
}
