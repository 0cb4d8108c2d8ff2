package webhook

import (
	"testing"

	"go.uber.org/goleak"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

func TestMain(m *testing.M) {
	// The second handler spaces errors by the time of the last one, which it keeps for the process: a test in a bubble,
	// where it is the year 2000, would sleep until the real time of an earlier test.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	goleak.VerifyTestMain(m)
}
