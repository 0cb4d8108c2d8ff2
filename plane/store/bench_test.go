package store

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
)

// kind is a kind of object to measure with: real Pods in protobuf, or the same as a custom resource in JSON.
type kind struct {
	Resource
	make func(i int) runtime.Object
}

func podKind() kind {
	scheme := runtime.NewScheme()
	utilruntime.Must(corev1.AddToScheme(scheme))
	proto := protobuf.NewSerializer(scheme, scheme)
	codec := serializer.NewCodecFactory(scheme).CodecForVersions(proto, proto, corev1.SchemeGroupVersion, corev1.SchemeGroupVersion)
	return kind{
		Resource: Resource{
			GroupResource: schema.GroupResource{Resource: "pods"},
			Codec:         codec,
			Prefix:        "/pods",
			NewFunc:       func() runtime.Object { return &corev1.Pod{} },
			NewListFunc:   func() runtime.Object { return &corev1.PodList{} },
		},
		make: func(i int) runtime.Object { return benchPod(i) },
	}
}

func customKind() kind {
	return kind{
		Resource: Resource{
			GroupResource: schema.GroupResource{Group: "example.com", Resource: "pods"},
			Codec:         unstructured.UnstructuredJSONScheme,
			Prefix:        "/example.com/pods",
			NewFunc:       func() runtime.Object { return &unstructured.Unstructured{} },
			NewListFunc:   func() runtime.Object { return &unstructured.UnstructuredList{} },
		},
		make: func(i int) runtime.Object {
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(benchPod(i))
			if err != nil {
				panic(err)
			}
			u := &unstructured.Unstructured{Object: content}
			u.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Pod"})
			return u
		},
	}
}

// benchPod returns a Pod of realistic size: two containers with 15 variables each.
func benchPod(i int) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: fmt.Sprintf("namespace-%02d", i%50),
			Name:      fmt.Sprintf("deployment-7d4b9c6f5d-%06d", i),
			UID:       "0b5e1a5e-3c55-4a3a-9f6e-2f1f1d3c0f11",
			Labels:    map[string]string{"app": fmt.Sprintf("app-%d", i%100), "pod-template-hash": "7d4b9c6f5d", "tier": "backend"},
		},
		Spec: corev1.PodSpec{NodeName: fmt.Sprintf("node-%d", i%100), ServiceAccountName: "default"},
	}
	for c := range 2 {
		container := corev1.Container{Name: fmt.Sprintf("container-%d", c), Image: "registry.example.com/team/image:v1.2.3"}
		for v := range 15 {
			container.Env = append(container.Env, corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_NUMBER_%d", v), Value: fmt.Sprintf("some value of variable %d of %d", v, i)})
		}
		container.Resources.Requests = corev1.ResourceList{"cpu": quantity.MustParse("100m"), "memory": quantity.MustParse("128Mi")}
		pod.Spec.Containers = append(pod.Spec.Containers, container)
	}
	return pod
}

func (k kind) key(obj runtime.Object) string {
	m := obj.(metav1.Object)
	return k.Prefix + "/" + m.GetNamespace() + "/" + m.GetName()
}

func (k kind) matching(fieldSelector, labelSelector string) storage.SelectionPredicate {
	label, err := labels.Parse(labelSelector)
	if err != nil {
		panic(err)
	}
	return storage.SelectionPredicate{
		Label:    label,
		Field:    fields.ParseSelectorOrDie(fieldSelector),
		GetAttrs: storage.DefaultNamespaceScopedAttr,
	}
}

func forKinds(b *testing.B, run func(b *testing.B, k kind, s *Store, i storage.Interface)) {
	for name, k := range map[string]kind{"proto": podKind(), "json": customKind()} {
		b.Run(name, func(b *testing.B) {
			s := New(Config{})
			b.Cleanup(s.Stop)
			i, _, err := s.Interface(k.Resource)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			run(b, k, s, i)
		})
	}
}

func fill(b *testing.B, k kind, i storage.Interface, n int) (keys []string) {
	b.Helper()
	for j := range n {
		obj := k.make(j)
		keys = append(keys, k.key(obj))
		if err := i.Create(b.Context(), k.key(obj), obj, nil, 0); err != nil {
			b.Fatal(err)
		}
	}
	return keys
}

func BenchmarkCreate(b *testing.B) {
	forKinds(b, func(b *testing.B, k kind, _ *Store, i storage.Interface) {
		n := 0
		defer reportCPU(b)()
		for b.Loop() {
			b.StopTimer()
			obj := k.make(n)
			b.StartTimer()
			if err := i.Create(b.Context(), k.key(obj), obj, k.NewFunc(), 0); err != nil {
				b.Fatal(err)
			}
			n++
		}
	})
}

func BenchmarkGet(b *testing.B) {
	forKinds(b, func(b *testing.B, k kind, _ *Store, i storage.Interface) {
		keys := fill(b, k, i, 10_000)
		rnd := rand.New(rand.NewPCG(1, 0))
		defer reportCPU(b)()
		for b.Loop() {
			if err := i.Get(b.Context(), keys[rnd.IntN(len(keys))], storage.GetOptions{}, k.NewFunc()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkUpdate(b *testing.B) {
	forKinds(b, func(b *testing.B, k kind, _ *Store, i storage.Interface) {
		keys := fill(b, k, i, 10_000)
		rnd := rand.New(rand.NewPCG(1, 0))
		n := 0
		defer reportCPU(b)()
		for b.Loop() {
			if err := touch(b.Context(), k, i, keys[rnd.IntN(len(keys))], n); err != nil {
				b.Fatal(err)
			}
			n++
		}
	})
}

func touch(ctx context.Context, k kind, i storage.Interface, key string, n int) error {
	return i.GuaranteedUpdate(ctx, key, k.NewFunc(), false, nil, storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
		obj.(metav1.Object).SetAnnotations(map[string]string{"n": fmt.Sprint(n)})
		return obj, nil
	}), nil)
}

func BenchmarkList(b *testing.B) {
	forKinds(b, func(b *testing.B, k kind, _ *Store, i storage.Interface) {
		fill(b, k, i, 10_000)
		for name, opts := range map[string]storage.ListOptions{
			"all":      {Predicate: k.matching("", "")},
			"page=500": {Predicate: storage.SelectionPredicate{Label: labels.Everything(), Field: fields.Everything(), Limit: 500}},
			"label1%":  {Predicate: k.matching("", "app=app-7")},
			"field":    {Predicate: k.matching("metadata.name=deployment-7d4b9c6f5d-000007", "")},
		} {
			opts.Recursive = true
			b.Run(name, func(b *testing.B) {
				b.ReportAllocs()
				defer reportCPU(b)()
				for b.Loop() {
					if err := i.GetList(b.Context(), k.Prefix, opts, k.NewListFunc()); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	})
}

// BenchmarkWatch measures one update and its delivery to all watches.
func BenchmarkWatch(b *testing.B) {
	forKinds(b, func(b *testing.B, k kind, s *Store, i storage.Interface) {
		keys := fill(b, k, i, 100)
		for _, watches := range []int{0, 1, 2, 3, 10, 100} {
			b.Run(fmt.Sprintf("watches=%d", watches), func(b *testing.B) {
				ctx, cancel := context.WithCancel(b.Context())
				var received, readers sync.WaitGroup
				for range watches {
					w, err := i.Watch(ctx, k.Prefix, storage.ListOptions{
						ResourceVersion: fmt.Sprint(s.Revision()), Recursive: true, Predicate: storage.Everything,
					})
					if err != nil {
						b.Fatal(err)
					}
					readers.Go(func() {
						for e := range w.ResultChan() {
							send(b, k, e)
							received.Done()
						}
					})
				}
				n := 0
				defer reportCPU(b)()
				for b.Loop() {
					received.Add(watches)
					if err := touch(ctx, k, i, keys[n%len(keys)], int(s.Revision())); err != nil {
						b.Fatal(err)
					}
					received.Wait()
					n++
				}
				cancel()
				readers.Wait()
			})
		}
	})
}

// send encodes an event's object as the API server does.
func send(b *testing.B, k kind, e watch.Event) {
	var err error
	if c, ok := e.Object.(runtime.CacheableObject); ok {
		err = c.CacheEncode(k.Codec.Identifier(), k.Codec.Encode, io.Discard)
	} else {
		err = k.Codec.Encode(e.Object, io.Discard)
	}
	if err != nil {
		b.Error(err)
	}
}

// BenchmarkOtherWatches measures what watches of other resources cost a write.
func BenchmarkOtherWatches(b *testing.B) {
	forKinds(b, func(b *testing.B, k kind, s *Store, i storage.Interface) {
		keys := fill(b, k, i, 100)
		for n := range 500 {
			w, err := i.Watch(b.Context(), fmt.Sprintf("%s/other-%d", k.Prefix, n), storage.ListOptions{Recursive: true, Predicate: storage.Everything})
			if err != nil {
				b.Fatal(err)
			}
			defer w.Stop()
		}
		n := 0
		defer reportCPU(b)()
		for b.Loop() {
			if err := touch(b.Context(), k, i, keys[n%len(keys)], n); err != nil {
				b.Fatal(err)
			}
			n++
		}
	})
}

func upstreamData() storagetesting.BenchmarkData {
	return storagetesting.PrepareBenchmarkData(50, 60, 100)
}

func BenchmarkUpstreamList(b *testing.B) {
	f := newFixture(b, Config{})
	data := upstreamData()
	for _, pod := range data.Pods {
		if err := f.Create(b.Context(), "/pods/"+pod.Namespace+"/"+pod.Name, pod, &example.Pod{}, 0); err != nil {
			b.Fatal(err)
		}
	}
	storagetesting.RunBenchmarkStoreList(b.Context(), b, f, data, false)
}

func BenchmarkUpstreamStats(b *testing.B) {
	f := newFixture(b, Config{})
	if err := storagetesting.PrecreateBenchmarkPods(b.Context(), f, upstreamData()); err != nil {
		b.Fatal(err)
	}
	storagetesting.RunBenchmarkStoreStats(b.Context(), b, f)
}

func BenchmarkUpstreamWrite(b *testing.B) {
	f := newFixture(b, Config{})
	storagetesting.RunBenchmarkWriteThroughput(b.Context(), b, f, upstreamData(), false, nil)
}

// BenchmarkDecodeOrCopy compares the two ways to a private object: to decode it, or to copy one that is kept decoded.
func BenchmarkDecodeOrCopy(b *testing.B) {
	for name, k := range map[string]kind{"proto": podKind(), "json": customKind()} {
		const n = 1000
		var encoded [][]byte
		var decoded []runtime.Object
		for i := range n {
			data, err := runtime.Encode(k.Codec, k.make(i))
			if err != nil {
				b.Fatal(err)
			}
			obj, err := runtime.Decode(k.Codec, data)
			if err != nil {
				b.Fatal(err)
			}
			encoded, decoded = append(encoded, data), append(decoded, obj)
		}
		b.Run(name+"/decode", func(b *testing.B) {
			b.ReportAllocs()
			defer reportCPU(b)()
			for i := 0; b.Loop(); i++ {
				if _, err := runtime.Decode(k.Codec, encoded[i%n]); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/copy", func(b *testing.B) {
			b.ReportAllocs()
			defer reportCPU(b)()
			for i := 0; b.Loop(); i++ {
				decoded[i%n].DeepCopyObject()
			}
		})
	}
}

// reportCPU reports the processor time of the whole process per operation, which other processes disturb less than the time
// on the clock.
func reportCPU(b *testing.B) func() {
	before := cpuTime(b)
	return func() { b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/op") }
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
