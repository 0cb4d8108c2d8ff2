package drain

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestCloseLetsRequestsFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := New()
		ctx, done, ok := requests.Begin(t.Context())
		if !ok {
			t.Fatal("refused before Close")
		}
		go func() {
			time.Sleep(grace / 2)
			if ctx.Err() != nil {
				t.Error("the request was ended within its grace")
			}
			done()
		}()
		begin := time.Now()
		requests.Close()
		if took := time.Since(begin); took != grace/2 {
			t.Errorf("Close took %s, want %s", took, grace/2)
		}
		if _, _, ok := requests.Begin(t.Context()); ok {
			t.Error("a request began after Close")
		}
	})
}

func TestCloseEndsWhatDoesNotFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := New()
		for range 3 {
			ctx, done, _ := requests.Begin(context.Background())
			go func() {
				<-ctx.Done()
				done()
			}()
		}
		begin := time.Now()
		requests.Close()
		if took := time.Since(begin); took != grace {
			t.Errorf("Close took %s, want %s", took, grace)
		}
	})
}
