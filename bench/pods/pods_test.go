package pods

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// The figures of the benchmarks speak of Pods of about 2.6 KB.
func TestPodsAreRealistic(t *testing.T) {
	names := map[string]bool{}
	for i := range 3 * PerApp {
		var p *corev1.Pod = Pod(i)
		p.Status = Running(i)
		data, err := p.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if len(data) < 2400 || len(data) > 2900 {
			t.Fatalf("Pod %d takes %d bytes encoded", i, len(data))
		}
		names[p.Namespace+"/"+p.Name] = true
	}
	if len(names) != 3*PerApp {
		t.Errorf("%d names for %d Pods", len(names), 3*PerApp)
	}
}
