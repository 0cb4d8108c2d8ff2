package test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/setpoint-dev/setpoint/operators/expose"
	"github.com/setpoint-dev/setpoint/plane/planetest"
)

// BenchmarkExpose5000Services measures what one change costs where there are many Services: requests and time until all that
// it bears on has its URL. Plane and operator share the processors.
func BenchmarkExpose5000Services(b *testing.B) {
	const services = 5000
	for range b.N {
		e := newExposing(b, planetest.New(b))
		config := settings("setpoint-system", "domain: example.com")
		e.create(config)
		for i := range services {
			e.create(exposedService(fmt.Sprintf("web-%04d", i)))
		}
		sent := &requestLog{}
		measure := func(what string, count int, act func(), done func(*corev1.Service) bool) {
			sent.take()
			start := time.Now()
			act()
			e.count(count, done)
			took := time.Since(start)
			kinds := map[string]int{}
			lines := sent.take()
			for _, line := range lines {
				verb, path, _ := strings.Cut(line, " ")
				parts := strings.Split(path, "/")
				for _, kind := range []string{"services", "ingresses", "events", "leases", "configmaps", "nodes", "httproutes"} {
					if strings.Contains(path, "/"+kind) {
						parts = []string{kind}
					}
				}
				kinds[verb+" "+parts[len(parts)-1]]++
			}
			var memory runtime.MemStats
			runtime.ReadMemStats(&memory)
			b.Logf("%s: %v, %d requests: %v; heap of operator and plane %d MB", what, took.Round(time.Millisecond), len(lines), kinds, memory.HeapAlloc>>20)
			b.ReportMetric(took.Seconds(), strings.ReplaceAll(what, " ", "-")+"-s")
		}
		at := func(domain string) func(*corev1.Service) bool {
			return func(s *corev1.Service) bool {
				return s.Annotations[urlAnnotation] == "http://"+s.Name+".default."+domain
			}
		}
		measure("all new", services, func() { e.start("one", expose.Options{}, sent.wrap) }, at("example.com"))
		measure("one Service changed", 1, func() {
			e.annotate(exposedService("web-0000"), "fabric8.io/host.name", "shop")
		}, func(s *corev1.Service) bool { return s.Annotations[urlAnnotation] == "http://shop.default.example.com" })
		e.annotate(exposedService("web-0000"), "fabric8.io/host.name", "")
		e.count(services, at("example.com"))
		measure("configuration changed", services, func() {
			change(e, config, func(cm *corev1.ConfigMap) { cm.Data["config.yml"] = "domain: example.org" })
		}, at("example.org"))
	}
}

// count waits until a condition holds for so many Services of the namespace default.
func (e *exposing) count(want int, holds func(*corev1.Service) bool) {
	e.Helper()
	user, err := kubernetes.NewForConfig(e.p.RESTConfig())
	if err != nil {
		e.Fatal(err)
	}
	seen, err := user.CoreV1().Services("default").Watch(e.Context(), metav1.ListOptions{})
	if err != nil {
		e.Fatal(err)
	}
	defer seen.Stop()
	met := map[string]bool{}
	for change := range seen.ResultChan() {
		if s, is := change.Object.(*corev1.Service); is && holds(s) {
			if met[s.Name] = true; len(met) == want {
				return
			}
		}
	}
	e.Fatalf("it holds for %d Services, not for %d", len(met), want)
}
