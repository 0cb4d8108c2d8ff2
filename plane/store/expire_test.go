package store

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
)

// exists says whether the pod is stored, after everything due has happened.
func (f *fixture) exists(t *testing.T, p *example.Pod) bool {
	t.Helper()
	synctest.Wait()
	err := f.Get(t.Context(), podKey(p), storage.GetOptions{}, &example.Pod{})
	if err != nil && !storage.IsNotFound(err) {
		t.Fatal(err)
	}
	return err == nil
}

func TestExpiry(t *testing.T) {
	long, none := uint64(60), uint64(0)
	tests := []struct {
		name   string
		update *uint64 // TTL given by an update after 5 seconds
		noop   bool
		want   time.Duration // 0: never
	}{
		{name: "no update", noop: true, want: 10 * time.Second},
		{name: "update keeps it", want: 10 * time.Second},
		{name: "update extends it", update: &long, want: 65 * time.Second},
		{name: "update ends it", update: &none},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, Config{})
				f.create(t, pod("stays"), 0)
				f.create(t, pod("a"), 10)
				time.Sleep(5 * time.Second)
				if !tt.noop {
					f.label(t, pod("a"), "x", tt.update)
				}
				if tt.want != 0 {
					time.Sleep(tt.want - 5*time.Second - time.Nanosecond)
				} else {
					time.Sleep(time.Hour)
				}
				if !f.exists(t, pod("a")) {
					t.Fatal("gone too early")
				}
				time.Sleep(time.Nanosecond)
				if got := f.exists(t, pod("a")); got != (tt.want == 0) {
					t.Errorf("exists = %v", got)
				}
				if !f.exists(t, pod("stays")) {
					t.Error("object without a TTL is gone")
				}
			})
		})
	}
}

func TestExpiryIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		w := f.watch(t.Context(), t, "", false)
		f.create(t, pod("b"), 20)
		f.create(t, pod("a"), 10)
		start := time.Now()
		expect(t, w, "ADDED b@2", "ADDED a@3", "DELETED a@4", "DELETED b@5")
		if d := time.Since(start); d != 20*time.Second {
			t.Errorf("last expiry after %v", d)
		}
	})
}

// TestExpiryOfMany takes more than one batch.
func TestExpiryOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		for i := range 3 * expireBatch {
			f.create(t, pod(fmt.Sprint(i)), 10)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := f.store.table.Snapshot().Len(); n != 0 {
			t.Errorf("%d objects left", n)
		}
	})
}

func TestStopEndsExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		f.create(t, pod("a"), 10)
		f.store.Stop()
		time.Sleep(time.Hour)
		if !f.exists(t, pod("a")) {
			t.Error("object expired in a stopped store")
		}
	})
}

func TestResponseMetaHasTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		f.create(t, pod("a"), 10)
		time.Sleep(2500 * time.Millisecond)
		err := f.GuaranteedUpdate(t.Context(), "/pods/ns/a", &example.Pod{}, false, nil,
			func(obj runtime.Object, m storage.ResponseMeta) (runtime.Object, *uint64, error) {
				if m.TTL != 8 || m.ResourceVersion != 2 {
					t.Errorf("got %+v, want TTL 8 and resourceVersion 2", m)
				}
				return obj, nil, nil
			}, nil)
		if err != nil {
			t.Error(err)
		}
	})
}
