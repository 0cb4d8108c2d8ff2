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

// BenchmarkExpose measures what one change costs where there are many Services: requests, and time until all that it bears on
// has its URL. Plane and operator share the processors.
func BenchmarkExpose(b *testing.B) {
	for _, services := range []int{1000, 5000} {
		b.Run(fmt.Sprintf("services=%d", services), func(b *testing.B) {
			for range b.N {
				exposeMany(b, services)
			}
		})
	}
}

func exposeMany(b *testing.B, services int) {
	e := newExposing(b, planetest.New(b))
	config := settings("setpoint-system", "domain: example.com")
	e.create(config)
	for i := range services {
		e.create(exposedService(fmt.Sprintf("web-%04d", i)))
	}
	sent := &requestLog{}
	measure := func(what string, act func()) {
		sent.take()
		start := time.Now()
		act()
		took := time.Since(start)
		requests := map[string]int{}
		for _, line := range sent.take() {
			requests[kindOfRequest(line)]++
		}
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		b.Logf("%s: %v; requests: %v; heap of operator and plane %d MB", what, took.Round(time.Millisecond), requests, memory.HeapAlloc>>20)
		b.ReportMetric(took.Seconds(), strings.ReplaceAll(what, " ", "-")+"-s")
	}
	everywhere := func(domain string) {
		e.count(services, func(s *corev1.Service) bool {
			return s.Annotations[urlAnnotation] == "http://"+s.Name+".default."+domain
		})
	}
	measure("all new", func() {
		e.start("one", expose.Options{}, sent.wrap)
		everywhere("example.com")
	})
	one := exposedService("web-0000")
	measure("one Service changed", func() {
		e.annotate(one, "fabric8.io/host.name", "shop")
		e.reached(one, "http://shop.default.example.com")
	})
	e.annotate(one, "fabric8.io/host.name", "")
	e.reached(one, "http://web-0000.default.example.com")
	measure("configuration changed", func() {
		change(e, config, func(cm *corev1.ConfigMap) { cm.Data["config.yml"] = "domain: example.org" })
		everywhere("example.org")
	})
}

// kindOfRequest returns the method and the resource of a line of a requestLog.
func kindOfRequest(line string) string {
	verb, path, _ := strings.Cut(line, " ")
	for part := range strings.SplitSeq(path, "/") {
		switch part {
		case "services", "ingresses", "events", "leases", "configmaps", "nodes", "httproutes":
			return verb + " " + part
		}
	}
	return verb + " discovery"
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
