package store

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/api/apitesting"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/storage"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/apiserver/pkg/storage/value"
)

// fixture is a store with the pods of upstream's example API, encrypted with a transformer that can be exchanged.
type fixture struct {
	storage.Interface
	store       *Store
	codec       runtime.Codec
	transformer *exchangeable
	destroy     func()
}

func newFixture(tb testing.TB, c Config) *fixture {
	tb.Helper()
	f := &fixture{store: New(c), codec: podCodec(), transformer: &exchangeable{}}
	f.transformer.set(storagetesting.NewPrefixTransformer([]byte("sealed:"), false))
	f.Interface, f.destroy = f.open(tb, f.transformer)
	checkStopped(tb, f.store)
	return f
}

// checkStopped stops s at the end of the test and checks that nothing of it is left running.
func checkStopped(tb testing.TB, s *Store) {
	before := goleak.IgnoreCurrent()
	tb.Cleanup(func() {
		s.Stop()
		goleak.VerifyNone(tb, before)
		if len(s.byKey) != 0 {
			tb.Errorf("watches left after Stop: %v", s.byKey)
		}
	})
}

func (f *fixture) open(tb testing.TB, transformer value.Transformer) (storage.Interface, func()) {
	tb.Helper()
	i, destroy, err := f.store.Interface(Resource{
		GroupResource: schema.GroupResource{Resource: "pods"},
		Codec:         f.codec,
		Prefix:        "/pods",
		NewFunc:       func() runtime.Object { return &example.Pod{} },
		NewListFunc:   func() runtime.Object { return &example.PodList{} },
		Transformer:   transformer,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return i, destroy
}

func podCodec() runtime.Codec {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	utilruntime.Must(example.AddToScheme(scheme))
	utilruntime.Must(examplev1.AddToScheme(scheme))
	return apitesting.TestCodec(serializer.NewCodecFactory(scheme), examplev1.SchemeGroupVersion)
}

// increaseRevision changes something else.
func (f *fixture) increaseRevision(_ context.Context, t *testing.T) int64 {
	const key = "/other"
	_, at, _ := f.store.table.Snapshot().Get(key)
	revision, err := f.store.write(key, at, &record{}, false)
	if err != nil {
		t.Fatal(err)
	}
	return int64(revision)
}

func (f *fixture) compact(_ context.Context, t *testing.T, resourceVersion string) {
	revision, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.store.Compact(revision); err != nil {
		t.Fatal(err)
	}
}

// stored checks what lies in the table at key.
func (f *fixture) stored(ctx context.Context, t *testing.T, key string) {
	r, _, ok := f.store.table.Snapshot().Get(key)
	if !ok {
		t.Fatalf("nothing stored at %s", key)
	}
	data, _, err := f.transformer.TransformFromStorage(ctx, r.data, dataKey(key))
	if err != nil {
		t.Fatal(err)
	}
	obj, err := runtime.Decode(f.codec, data)
	if err != nil {
		t.Fatal(err)
	}
	if pod := obj.(*example.Pod); pod.ResourceVersion != "" {
		t.Errorf("stored pod has resourceVersion %q, want none", pod.ResourceVersion)
	}
}

// UpdatePrefixTransformer implements storagetesting.InterfaceWithPrefixTransformer.
func (f *fixture) UpdatePrefixTransformer(modify storagetesting.PrefixTransformerModifier) func() {
	old := f.transformer.get()
	modified := *old.(*storagetesting.PrefixTransformer)
	f.transformer.set(modify(&modified))
	return func() { f.transformer.set(old) }
}

// UpdateTransformer implements storagetesting.InterfaceWithTransformerOverride.
func (f *fixture) UpdateTransformer(modify storagetesting.TransformerModifier) func() {
	old := f.transformer.get()
	f.transformer.set(modify(old))
	return func() { f.transformer.set(old) }
}

// exchangeable is a transformer that can be exchanged while it is in use.
type exchangeable struct {
	current atomic.Pointer[value.Transformer]
}

func (e *exchangeable) get() value.Transformer  { return *e.current.Load() }
func (e *exchangeable) set(t value.Transformer) { e.current.Store(&t) }

func (e *exchangeable) TransformFromStorage(ctx context.Context, data []byte, key value.Context) ([]byte, bool, error) {
	return e.get().TransformFromStorage(ctx, data, key)
}

func (e *exchangeable) TransformToStorage(ctx context.Context, data []byte, key value.Context) ([]byte, error) {
	return e.get().TransformToStorage(ctx, data, key)
}

// fail makes all reads of objects fail, or work again.
func (f *fixture) fail(yes bool) {
	sound := storagetesting.NewPrefixTransformer([]byte("sealed:"), false)
	if yes {
		f.transformer.set(failing{sound})
	} else {
		f.transformer.set(sound)
	}
}

type failing struct{ value.Transformer }

func (failing) TransformFromStorage(context.Context, []byte, value.Context) ([]byte, bool, error) {
	return nil, false, errors.New("cannot be read")
}

// reads checks how many objects were read since the last time.
func (f *fixture) reads(t *testing.T, _, want uint64) {
	if got := f.transformer.get().(*storagetesting.PrefixTransformer).GetReadsAndReset(); got != want {
		t.Errorf("%d objects were read, want %d", got, want)
	}
}
