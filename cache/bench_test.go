package cache

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
)

const benchObjects = 10_000

// benchPod is a Pod as clusters have them: two containers with 15 variables each, probes, resources, volumes
// and a status.
func benchPod(i int) *corev1.Pod {
	rnd := rand.New(rand.NewPCG(uint64(i), 1))
	hex := func(n int) string { return fmt.Sprintf("%0*x", n, rnd.Uint64())[:n] }
	app := fmt.Sprintf("service-%d", i/10)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: app + "-" + hex(10) + "-" + hex(5), GenerateName: app + "-", Namespace: fmt.Sprintf("team-%d", i%50),
			CreationTimestamp: metav1.NewTime(time.Unix(1_700_000_000+int64(i), 0)),
			Labels: map[string]string{
				"app.kubernetes.io/name": app, "app.kubernetes.io/part-of": "shop", "pod-template-hash": hex(10),
				"hundredth": fmt.Sprint(i % 100),
			},
			Annotations: map[string]string{"prometheus.io/scrape": "true", "checksum/config": hex(16) + hex(16)},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app + "-" + hex(10), UID: types.UID(hex(8) + "-" + hex(12)),
			}},
		},
		Spec: corev1.PodSpec{
			NodeName: fmt.Sprintf("node-%d", i%200), ServiceAccountName: app, RestartPolicy: corev1.RestartPolicyAlways,
			Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: app}}}}},
			Tolerations: []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: fmt.Sprintf("10.%d.%d.%d", i>>16&255, i>>8&255, i&255), HostIP: "192.168.0.1", QOSClass: corev1.PodQOSBurstable,
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: corev1.PodInitialized, Status: corev1.ConditionTrue},
				{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}, {Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
			},
		},
	}
	for _, name := range []string{"app", "proxy"} {
		c := corev1.Container{
			Name: name, Image: "registry.example.com/shop/" + app + ":v1." + hex(3),
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("128Mi")},
				Limits:   corev1.ResourceList{"memory": resource.MustParse("256Mi")},
			},
			ReadinessProbe: &corev1.Probe{PeriodSeconds: 10, ProbeHandler: corev1.ProbeHandler{
				HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromString("http")}}},
			VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/config", ReadOnly: true}},
		}
		for v := range 15 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%s_%d", name, v), Value: "value-" + hex(12)})
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: name, Ready: true, Image: c.Image, ImageID: "sha256:" + hex(16) + hex(16), ContainerID: "containerd://" + hex(16) + hex(16),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Unix(1_700_000_000, 0))}},
		})
	}
	return p
}

// benchWorkload is a custom resource of a Deployment's shape, with the Pod template of benchPod.
func benchWorkload(i int) *Workload {
	p := benchPod(i)
	return &Workload{
		ObjectMeta: p.ObjectMeta,
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: p.Labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: p.Labels}, Spec: p.Spec},
		},
		Status: appsv1.DeploymentStatus{Replicas: 1, ReadyReplicas: 1},
	}
}

// Workload is a Go type as users write them: JSON tags and DeepCopy, no protobuf.
type Workload struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              appsv1.DeploymentSpec   `json:"spec"`
	Status            appsv1.DeploymentStatus `json:"status"`
}

func (w *Workload) DeepCopyObject() kruntime.Object {
	c := *w
	w.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	w.Spec.DeepCopyInto(&c.Spec)
	w.Status.DeepCopyInto(&c.Status)
	return &c
}

var workloadKind = widgetKind.GroupVersion().WithKind("Widget")

// benchCache is a cache with many objects of a kind, without a server behind it.
func benchCache(tb testing.TB, collection string, n int, make func(i int) testObject) (*server, []types.NamespacedName) {
	s := newServer()
	keys := []types.NamespacedName{}
	for i := range n {
		o := make(i)
		o.SetUID(types.UID(fmt.Sprintf("%08x-0000-4000-8000-%012x", i, i)))
		s.put(collection, o)
		keys = append(keys, key(o.GetNamespace(), o.GetName()))
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return s, keys
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// fill runs a cache until the kind is synced.
func fill(tb testing.TB, s *server, cfg Config, gvk schema.GroupVersionKind) *Cache {
	cfg.REST = &rest.Config{Host: "https://server.test"}
	cfg.HTTP = &http.Client{Transport: s}
	cfg.Mapper = newTestMapper()
	c, err := New(cfg)
	must(err)
	w, err := c.Watch(gvk, nil)
	must(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); must(c.Run(ctx)) }()
	tb.Cleanup(func() { cancel(); <-done })
	<-w.Synced()
	return c
}

func newPod(i int) testObject      { return benchPod(i) }
func newWorkload(i int) testObject { return benchTree(i) }

func benchTree(i int) *unstructured.Unstructured {
	w := benchWorkload(i)
	w.APIVersion, w.Kind = workloadKind.ToAPIVersionAndKind()
	data, err := json.Marshal(w)
	must(err)
	u := &unstructured.Unstructured{}
	must(jsonUnmarshal(string(data), &u.Object))
	return u
}

func workloadScheme() *kruntime.Scheme {
	s := kruntime.NewScheme()
	s.AddKnownTypeWithName(workloadKind, &Workload{})
	return s
}

func BenchmarkBytesPerPod(b *testing.B) {
	s, _ := benchCache(b, pods, benchObjects, newPod)
	encoded := 0
	for _, o := range s.objects[pods] {
		encoded += o.(*corev1.Pod).Size()
	}
	for _, compress := range []bool{false, true} {
		b.Run(fmt.Sprint("compress=", compress), func(b *testing.B) {
			for b.Loop() {
				before := heap()
				c := fill(b, s, Config{Default: Options{Compress: compress}}, podKind)
				s.mu.Lock()
				s.streams[len(s.streams)-1].body.data = bytes.Buffer{} // the server's, not the cache's
				s.mu.Unlock()
				b.ReportMetric(float64(heap()-before)/benchObjects, "B/pod")
				runtime.KeepAlive(c)
			}
			b.ReportMetric(float64(encoded)/benchObjects, "encoded-B/pod")
		})
	}
}

func BenchmarkGetCompressedPod(b *testing.B) {
	s, keys := benchCache(b, pods, benchObjects, newPod)
	c := fill(b, s, Config{Default: Options{Compress: true}}, podKind)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		var p corev1.Pod
		must(c.Get(b.Context(), podKind, keys[i%len(keys)], &p))
		i++
	}
}

func BenchmarkGetPod(b *testing.B) {
	s, keys := benchCache(b, pods, benchObjects, newPod)
	c := fill(b, s, Config{}, podKind)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		var p corev1.Pod
		must(c.Get(b.Context(), podKind, keys[i%len(keys)], &p))
		i++
	}
}

// BenchmarkDeepCopyPod is what a cache of decoded objects pays for the same.
func BenchmarkDeepCopyPod(b *testing.B) {
	s, keys := benchCache(b, pods, benchObjects, newPod)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		_ = s.objects[pods][joinKey(keys[i%len(keys)])].DeepCopyObject()
		i++
	}
}

func BenchmarkGetWorkload(b *testing.B) {
	s, keys := benchCache(b, widgets, benchObjects, newWorkload)
	b.Run("typed", func(b *testing.B) {
		c := fill(b, s, Config{Scheme: workloadScheme()}, workloadKind)
		benchGet(b, c, keys, func() kruntime.Object { return &Workload{} })
	})
	b.Run("unstructured", func(b *testing.B) {
		c := fill(b, s, Config{Scheme: workloadScheme()}, workloadKind)
		benchGet(b, c, keys, func() kruntime.Object { return &unstructured.Unstructured{} })
	})
}

func benchGet(b *testing.B, c *Cache, keys []types.NamespacedName, into func() kruntime.Object) {
	for _, k := range keys { // decoded once
		must(c.Get(b.Context(), workloadKind, k, into()))
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		must(c.Get(b.Context(), workloadKind, keys[i%len(keys)], into()))
		i++
	}
}

func BenchmarkDeepCopyWorkload(b *testing.B) {
	_, keys := benchCache(b, widgets, 0, newWorkload)
	for i := range benchObjects {
		keys = append(keys, key("", fmt.Sprint(i)))
	}
	objects := map[types.NamespacedName]*Workload{}
	for i, k := range keys {
		objects[k] = benchWorkload(i)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		_ = objects[keys[i*7919%len(keys)]].DeepCopyObject()
		i++
	}
}

func BenchmarkBytesPerWorkload(b *testing.B) {
	s, keys := benchCache(b, widgets, benchObjects, newWorkload)
	for b.Loop() {
		before := heap()
		c := fill(b, s, Config{Scheme: workloadScheme()}, workloadKind)
		s.mu.Lock()
		s.streams[len(s.streams)-1].body.data = bytes.Buffer{}
		s.mu.Unlock()
		b.ReportMetric(float64(heap()-before)/benchObjects, "B/unread")
		for _, k := range keys {
			must(c.Get(b.Context(), workloadKind, k, &Workload{}))
		}
		b.ReportMetric(float64(heap()-before)/benchObjects, "B/read")
		runtime.KeepAlive(c)
	}
}

func BenchmarkListPods(b *testing.B) {
	s, _ := benchCache(b, pods, benchObjects, newPod)
	c := fill(b, s, Config{}, podKind)
	for _, of := range []struct {
		name    string
		options ListOptions
	}{
		{"all", ListOptions{}},
		{"hundred", ListOptions{Labels: labels.SelectorFromSet(labels.Set{"hundredth": "7"})}},
		{"namespace", ListOptions{Namespace: "team-7"}},
	} {
		b.Run(of.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var list corev1.PodList
				must(c.List(b.Context(), podKind, of.options, &list))
			}
		})
	}
}

// BenchmarkAdmitPod is what the arrival of one object costs, without the network.
func BenchmarkAdmitPod(b *testing.B) {
	s, keys := benchCache(b, pods, 1, newPod)
	c := fill(b, s, Config{}, podKind)
	st, err := c.lookup(podKind)
	must(err)
	p := benchPod(0)
	p.Namespace, p.Name = keys[0].Namespace, keys[0].Name
	wire, err := p.Marshal()
	must(err)
	b.ReportAllocs()
	for b.Loop() {
		o, err := st.admit(encodingProto, string(wire))
		must(err)
		st.apply(st.scopes[0], []write{{key: o.key, now: o}}, "")
	}
}
