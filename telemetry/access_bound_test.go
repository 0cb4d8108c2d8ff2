package telemetry

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"testing"
	"time"
)

// However many strangers come, a bounded number of answers is kept.
func TestGuardKeepsFewAnswers(t *testing.T) {
	g := &Guard{answers: map[question]answer{}}
	now := time.Now()
	lasting := question{sha256.Sum256([]byte("good")), "/metrics"}
	g.keep(lasting, answer{code: http.StatusOK, until: now.Add(allowedFor)}, now)
	for n := range 10 * maxReviews {
		q := question{sha256.Sum256(fmt.Append(nil, n)), "/metrics"}
		at := now.Add(time.Duration(n) * time.Millisecond * 20)
		g.keep(q, answer{code: http.StatusUnauthorized, until: at.Add(deniedFor)}, at)
		if _, ok := g.known(q, at); !ok || len(g.answers) > maxReviews {
			t.Fatalf("after %d answers %d are kept, the last among them: %v", n, len(g.answers), ok)
		}
		if _, ok := g.known(lasting, at); !ok && at.Before(now.Add(allowedFor)) {
			t.Fatalf("strangers' answers pushed out one that lasts, after %d", n)
		}
	}
}
