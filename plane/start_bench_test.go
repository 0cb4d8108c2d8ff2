package plane_test

import (
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/plane"
)

// BenchmarkStart starts and stops planes, whole ones and such without controllers.
func BenchmarkStart(b *testing.B) {
	for name, config := range map[string]plane.Config{"whole": {}, "api": {APIOnly: true}, "listening": {Listen: "127.0.0.1:0"}} {
		b.Run(name, func(b *testing.B) {
			var stopping time.Duration
			for b.Loop() {
				p, err := plane.New(config)
				if err != nil {
					b.Fatal(err)
				}
				if err := p.Start(b.Context()); err != nil {
					b.Fatal(err)
				}
				begin := time.Now()
				b.StopTimer()
				p.Stop()
				b.StartTimer()
				stopping += time.Since(begin)
			}
			b.ReportMetric(float64(stopping.Milliseconds())/float64(b.N), "ms/stop")
		})
	}
}
