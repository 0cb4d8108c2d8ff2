package cache

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/filter"
)

var (
	podKind    = corev1.SchemeGroupVersion.WithKind("Pod")
	nodeKind   = corev1.SchemeGroupVersion.WithKind("Node")
	widgetKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
)

const (
	pods    = "pods."
	nodes   = "nodes."
	widgets = "widgets.example.com"
)

// mapper knows the kinds of these tests. Forgotten ones it does not know until Reset.
type mapper struct {
	*meta.DefaultRESTMapper
	mu     sync.Mutex
	absent map[schema.GroupKind]bool
	resets int
}

func newTestMapper() *mapper {
	m := &mapper{DefaultRESTMapper: meta.NewDefaultRESTMapper(nil), absent: map[schema.GroupKind]bool{}}
	m.Add(podKind, meta.RESTScopeNamespace)
	m.Add(nodeKind, meta.RESTScopeRoot)
	m.Add(namespaceKind, meta.RESTScopeRoot)
	m.Add(widgetKind, meta.RESTScopeNamespace)
	return m
}

func (m *mapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.absent[gk] {
		return nil, &meta.NoKindMatchError{GroupKind: gk, SearchedVersions: versions}
	}
	return m.DefaultRESTMapper.RESTMapping(gk, versions...)
}

func (m *mapper) Reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.resets++
}

func (m *mapper) setAbsent(gk schema.GroupKind, absent bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.absent[gk] = absent
}

// harness is a running cache on a scripted server.
type harness struct {
	*Cache
	server *server
	mapper *mapper
	stop   func() // ends Run and waits for it
}

// start runs a cache with the configuration until the test ends; what the configuration lacks is filled in.
func start(t *testing.T, s *server, cfg Config) *harness {
	t.Helper()
	h := prepare(t, s, cfg)
	h.run(t)
	return h
}

func prepare(t *testing.T, s *server, cfg Config) *harness {
	t.Helper()
	m := newTestMapper()
	cfg.REST = &rest.Config{Host: "https://server.test"}
	cfg.HTTP = &http.Client{Transport: s}
	cfg.Mapper = m
	cfg.Rand = rand.New(rand.NewPCG(1, 2))
	cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &harness{Cache: c, server: s, mapper: m}
}

func (h *harness) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := h.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	h.stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(h.stop)
	synctest.Wait()
}

// watchKind watches a kind and records the changes.
func (h *harness) watchKind(t *testing.T, gvk schema.GroupVersionKind) (*Watch, *recorder) {
	t.Helper()
	r := &recorder{}
	w, err := h.Watch(gvk, r.record)
	if err != nil {
		t.Fatal(err)
	}
	return w, r
}

// recorder writes changes down as text: "initial ns/name@rv", "added …", "modified …", "deleted …".
type recorder struct {
	mu    sync.Mutex
	lines []string
}

func (r *recorder) record(c filter.Change) {
	m := c.Latest().Meta()
	verb := c.Verb()
	if c.Initial {
		verb = "initial"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf("%s %s@%s", verb, joinKey(types.NamespacedName{Namespace: m.Namespace, Name: m.Name}), m.ResourceVersion))
}

// take returns what was recorded since it was last called.
func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := r.lines
	r.lines = nil
	return lines
}

func pod(namespace, name string, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: labels,
			ManagedFields: []metav1.ManagedFieldsEntry{
				{Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: metav1.NewFieldsV1(`{"f:status":{}}`)},
				{Manager: "mine", Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)},
			},
		},
		Spec: corev1.PodSpec{NodeName: "node-" + name, Containers: []corev1.Container{{Name: "app", Image: "nginx"}}},
	}
}

func widget(namespace, name string, labels map[string]string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget",
		"spec": map[string]any{"size": int64(3), "colour": "re\"d", "parts": []any{"a", "b"}},
	}}
	u.SetNamespace(namespace)
	u.SetName(name)
	u.SetLabels(labels)
	u.SetManagedFields(pod("", "", nil).ManagedFields)
	return u
}

func key(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// pass lets time pass and everything that is due happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
