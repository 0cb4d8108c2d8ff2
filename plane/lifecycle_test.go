package plane_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/setpoint-dev/setpoint/plane"
	"github.com/setpoint-dev/setpoint/plane/node"
)

func TestConfigurationErrorsComeAllAtOnce(t *testing.T) {
	_, err := plane.New(plane.Config{
		Listen:      "nowhere",
		APIOnly:     true,
		Controllers: []string{"deployment", "deploymint"},
		Nodes:       node.Config{Count: -1},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"Listen", "APIOnly", "deploymint", "Nodes.Count"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not mentioned in: %v", want, err)
		}
	}
}

func TestPlanesSideBySide(t *testing.T) {
	names := map[string]*plane.Plane{}
	for _, name := range []string{"one", "two"} {
		p, err := plane.New(plane.Config{APIOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer p.Stop()
		names[name] = p
		client := kubernetes.NewForConfigOrDie(p.RESTConfig())
		_, err = client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, p := range names {
		client := kubernetes.NewForConfigOrDie(p.RESTConfig())
		list, err := client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Items) != 1 || list.Items[0].Name != name {
			t.Errorf("plane %s has ConfigMaps %v", name, list.Items)
		}
	}
}

func TestStopEndsWatchesAndRefusesRequests(t *testing.T) {
	p, err := plane.New(plane.Config{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	var ended []<-chan struct{}
	for _, config := range []*rest.Config{p.RESTConfig(), overTLS(t, p)} {
		client := kubernetes.NewForConfigOrDie(config)
		watch, err := client.CoreV1().Pods("").Watch(context.Background(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		end := make(chan struct{})
		go func() {
			defer close(end)
			for range watch.ResultChan() {
			}
		}()
		ended = append(ended, end)
	}
	address := p.Address()
	begin := time.Now()
	p.Stop()
	t.Log("stopped after", time.Since(begin))
	for _, end := range ended {
		<-end
	}

	if _, err := kubernetes.NewForConfigOrDie(p.RESTConfig()).Discovery().ServerVersion(); err == nil {
		t.Error("a stopped plane answers")
	}
	if _, err := http.Get("https://" + address + "/readyz"); err == nil {
		t.Error("a stopped plane listens")
	}
	response := httptest.NewRecorder()
	p.Handler().ServeHTTP(response, httptest.NewRequest("GET", "/readyz", nil))
	if response.Code != http.StatusServiceUnavailable {
		t.Errorf("the handler of a stopped plane answers %d", response.Code)
	}
	if err := p.Start(t.Context()); err == nil {
		t.Error("a stopped plane could be started")
	}
}

// TestStartThatIsCancelledLeavesNothing relies on TestMain to find what is left.
func TestStartThatIsCancelledLeavesNothing(t *testing.T) {
	for _, after := range []time.Duration{0, 10 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond} {
		p, err := plane.New(plane.Config{Listen: "127.0.0.1:0"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), after)
		err = p.Start(ctx)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("cancelled after %s: got %v, want context.DeadlineExceeded or success", after, err)
		}
		_, kubeconfigErr := p.Kubeconfig()
		if (err == nil) != (kubeconfigErr == nil) {
			t.Errorf("Start said %v, but Kubeconfig %v", err, kubeconfigErr)
		}
		p.Stop()
	}
}

func TestHealthAndVersion(t *testing.T) {
	p, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/readyz", "/livez", "/healthz", "/version"} {
		response := httptest.NewRecorder()
		p.Handler().ServeHTTP(response, httptest.NewRequest("GET", path, nil))
		if response.Code != http.StatusOK {
			t.Errorf("%s answers %d to somebody unknown: %s", path, response.Code, response.Body)
		}
	}
	version, err := kubernetes.NewForConfigOrDie(p.RESTConfig()).Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(version.GitVersion, "v1.37.") || version.Minor != "37" {
		t.Errorf("the version is %+v", version)
	}
	metrics, err := kubernetes.NewForConfigOrDie(p.RESTConfig()).CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil || !strings.Contains(string(metrics), "apiserver_request_total") {
		t.Errorf("metrics: %v", err)
	}
}

// overTLS reaches a plane through its kubeconfig.
func overTLS(t *testing.T, p *plane.Plane) *rest.Config {
	t.Helper()
	data, err := p.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		t.Fatal(err)
	}
	return config
}
