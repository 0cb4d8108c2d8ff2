package test

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/setpoint-dev/setpoint/plane/planetest"
)

// newCluster is a plane for the test, or the cluster whose kubeconfig SETPOINT_TEST_KUBECONFIG names: `make conformance`
// runs these tests against a real kube-apiserver, too.
func newCluster(t *testing.T) planetest.Cluster {
	t.Helper()
	kubeconfig := os.Getenv("SETPOINT_TEST_KUBECONFIG")
	if kubeconfig == "" {
		return planetest.New(t)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	return existing{config}
}

// existing is a cluster that was there before the test.
type existing struct{ config *rest.Config }

// RESTConfig implements planetest.Cluster.
func (e existing) RESTConfig() *rest.Config { return rest.CopyConfig(e.config) }

func TestMain(m *testing.M) {
	// Kubernetes' code logs through klog, which is the process's; what a failed test needs, planetest shows.
	klog.SetLogger(logr.Discard())
	// The second handler spaces errors by the time of the last one, which it keeps for the process: a test in a bubble,
	// where it is the year 2000, would sleep until the real time of an earlier test.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	os.Exit(m.Run())
}
