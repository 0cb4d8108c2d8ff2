package test

import (
	"io"
	"os"
	"testing"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

func TestMain(m *testing.M) {
	// Kubernetes' code logs through klog, which is the process's; what a failed test needs, planetest shows.
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	// The second handler spaces errors by the time of the last one, which it keeps for the process: a test in a bubble,
	// where it is the year 2000, would sleep until the real time of an earlier test.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	os.Exit(m.Run())
}
