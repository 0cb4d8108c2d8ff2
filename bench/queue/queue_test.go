package queue

import (
	"context"
	"testing"
)

// BenchmarkAddGetDone prints the figures; each iteration is a round of Measure.
func BenchmarkAddGetDone(b *testing.B) {
	results, err := Measure(context.Background(), b.N)
	if err != nil {
		b.Fatal(err)
	}
	for _, r := range results {
		for _, name := range []string{Ours, Flows, Workqueue, PriorityQueue} {
			b.Logf("%-10s  %-34s %5.0f ns", r.ID, name, r.Nanoseconds[name])
		}
	}
}
