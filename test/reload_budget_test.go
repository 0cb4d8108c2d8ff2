package test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/setpoint-dev/setpoint/operators/reload"
	"github.com/setpoint-dev/setpoint/plane/planetest"
)

func TestReloadBudget(t *testing.T) {
	inReloads(t, func(r *reloads) {
		const limit, count = 2, 7
		r.create(configMap("app", "1"))
		var all []*appsv1.Deployment
		for i := range count {
			d := web(fmt.Sprintf("web-%d", i), reload.ConfigMaps, "app")
			d.Spec.Replicas = new(int32(1))
			d.Spec.Template.Annotations = map[string]string{"node.setpoint.dev/ready": "20s"}
			all = append(all, d)
			r.create(d)
		}
		o := reload.Options{MaxRolling: limit}
		stop := r.start("first", o)
		for _, d := range all {
			r.rolled(d, 1)
			r.remembered(d)
		}
		r.set("app", "2")
		begin, most := time.Now(), 0
		for finished := 0; finished < count; {
			time.Sleep(time.Second)
			finished = 0
			rolling := 0
			for _, d := range all {
				d = planetest.Wait(r, r.p, d, exists)
				switch done := d.Status.ObservedGeneration == d.Generation && d.Status.UpdatedReplicas == 1 && d.Status.Replicas == 1; {
				case d.Spec.Template.Annotations[reload.Stamp] == "":
				case done && d.Status.AvailableReplicas == 1:
					finished++
				default:
					rolling++
				}
			}
			if most = max(most, rolling); finished == 3 && stop != nil {
				stop() // another replica counts those that this one began
				stop = nil
				r.start("second", o)
			}
			if time.Since(begin) > 10*time.Minute {
				r.Fatalf("after ten minutes %d have finished", finished)
			}
		}
		if most != limit {
			r.Errorf("%d rolled at once, want %d", most, limit)
		}
		r.Logf("%d rollouts of 20 s each, two at a time, took %v", count, time.Since(begin))
		r.allStay(all, 2, "one change")
	})
}

// forbidden refuses requests for all objects of a resource.
func forbidden(resource string) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if !strings.HasSuffix(r.URL.Path, "/"+resource) {
				return next.RoundTrip(r)
			}
			return &http.Response{
				StatusCode: http.StatusForbidden, Request: r, Header: http.Header{"Content-Type": {"application/json"}},
				Body: io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)),
			}, nil
		})
	}
}

// A kind that may not be watched holds up no other, also when rollouts are counted.
func TestReloadBudgetWithoutRightsToAKind(t *testing.T) {
	inReloads(t, func(r *reloads) {
		d := web("web", reload.ConfigMaps, "app")
		r.create(configMap("app", "1"), d)
		r.start("only", reload.Options{MaxRolling: 1}, forbidden("cronjobs"))
		r.remembered(d)
		r.set("app", "2")
		r.rolled(d, 2)
	})
}
