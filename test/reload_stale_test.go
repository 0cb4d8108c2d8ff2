package test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/setpoint-dev/setpoint/operators/reload"
	"github.com/setpoint-dev/setpoint/plane/planetest"
)

// heldBack keeps the frames of the watch of a resource back while it is closed.
type heldBack struct {
	resource string

	mu   sync.Mutex
	gate chan struct{} // nil: open
}

func (h *heldBack) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gate = make(chan struct{})
}

func (h *heldBack) open() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.gate)
	h.gate = nil
}

func (h *heldBack) wait(ctx context.Context) {
	h.mu.Lock()
	gate := h.gate
	h.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
		}
	}
}

func (h *heldBack) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if err == nil && r.URL.Query().Get("watch") != "" && strings.HasSuffix(r.URL.Path, "/"+h.resource) {
			response.Body = lateBody{response.Body, h, r.Context()}
		}
		return response, err
	})
}

type lateBody struct {
	io.ReadCloser
	held *heldBack
	ctx  context.Context
}

func (b lateBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.held.wait(b.ctx)
	return n, err
}

// A replica that takes over while its cache of ConfigMaps is behind must not roll back to what it still sees.
func TestReloadStaleReplicaRollsNothingBack(t *testing.T) {
	inReloads(t, func(r *reloads) {
		d := web("web", reload.Auto, "true")
		r.create(configMap("web", "1"), d)
		stop := r.start("first", reload.Options{})
		r.remembered(d)
		late := heldBack{resource: "configmaps"}
		r.start("second", reload.Options{}, late.wrap)
		time.Sleep(10 * time.Second) // it has all there is
		late.close()
		r.set("web", "2")
		r.rolled(d, 2)
		stop()
		r.awaitLeader("second")
		r.stays(d, 2, "the new leader sees the old content")
		late.open()
		r.stays(d, 2, "now it sees the new one")
		r.set("web", "3")
		r.rolled(d, 3)
	})
}

// A replica that resumes a Job which another one suspended, while its cache is behind, remembers what the Pods start with.
func TestReloadStaleReplicaRestartsNoJobTwice(t *testing.T) {
	inReloads(t, func(r *reloads) {
		r.create(configMap("app", "1"))
		_, _, _, _, job := workloads()
		r.create(job)
		var armed atomic.Bool // the first replica dies once it has suspended the Job
		var way switched
		r.start("first", reload.Options{}, way.wrap, func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(req *http.Request) (*http.Response, error) {
				response, err := next.RoundTrip(req)
				if armed.Load() && isPatchOf(req, "jobs", "job") {
					way.cut.Store(true)
				}
				return response, err
			})
		})
		r.remembered(job)
		first := planetest.Wait(r, r.p, job, func(j *batchv1.Job) bool { return j.Status.Active == 1 })
		late := heldBack{resource: "configmaps"}
		r.start("second", reload.Options{}, late.wrap)
		time.Sleep(10 * time.Second)
		late.close()
		armed.Store(true)
		r.set("app", "2")
		r.awaitLeader("second")
		second := planetest.Wait(r, r.p, job, func(j *batchv1.Job) bool {
			return j.Status.StartTime != nil && j.Status.StartTime.After(first.Status.StartTime.Time) && j.Status.Active == 1 && !*j.Spec.Suspend
		})
		time.Sleep(10 * time.Second)
		late.open()
		time.Sleep(time.Minute)
		now := planetest.Wait(r, r.p, job, func(j *batchv1.Job) bool { return j.Status.Active == 1 })
		if !now.Status.StartTime.Equal(second.Status.StartTime) {
			r.Errorf("it started at %v, and after the change at %v and %v", first.Status.StartTime, second.Status.StartTime, now.Status.StartTime)
		}
	})
}

// A ConfigMap that was made with the Deployment, and reaches the cache after it, did not come into being later.
func TestReloadFirstSightWhileTheCacheIsBehind(t *testing.T) {
	inReloads(t, func(r *reloads) {
		late := heldBack{resource: "configmaps"}
		r.start("only", reload.Options{}, late.wrap)
		time.Sleep(10 * time.Second) // it has all there is
		late.close()
		d := web("web", reload.Auto, "true")
		r.create(configMap("web", "1"), d)
		r.rolled(d, 1)
		r.remembered(d)
		late.open()
		r.stays(d, 1, "the first sight")
		r.set("web", "2")
		r.rolled(d, 2)
	})
}
