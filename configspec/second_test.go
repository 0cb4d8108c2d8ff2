package configspec

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/condition"
	"github.com/setpoint-dev/setpoint/internal/apitest"
	"github.com/setpoint-dev/setpoint/owner"
)

func TestStatusInASecondConfigMap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, StatusConfigMap, ready, document("blog", good))
		want := []string{"create configmaps default", "patch configmaps default/blog-status", "patch configmaps default/blog-status"}
		if diff := cmp.Diff(want, r.writes()); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
		second := r.get("blog-status")
		says(t, parse(t, second.Data["status.yaml"]), ReasonValid, Hash(good), Hash(good))
		if second.Data["Ready"] != "True" || second.Data["Valid"] != "True" || second.Data["spec.yaml"] != good || !owner.IsControlledBy(second, r.get("blog")) {
			t.Errorf("got %+v", second)
		}
		if len(r.get("blog").Annotations) != 0 {
			t.Error("the ConfigMap of the document was written, too")
		}

		r.edit("blog", func(cm *corev1.ConfigMap) { cm.Data["spec.yaml"] = bad })
		if second = r.get("blog-status"); second.Data["Valid"] != "False" || second.Data["Ready"] != "True" {
			t.Errorf("got %+v", second)
		}
		r.server.Requests()
		r.server.DropWatches(true)
		r.settle()
		if got := r.writes(); len(got) != 0 || len(r.calls) != 2 {
			t.Errorf("calls %v, writes at rest %v", r.calls, got)
		}

		// Somebody deletes it.
		r.server.Delete(second)
		r.settle()
		says(t, parse(t, r.get("blog-status").Data["status.yaml"]), ReasonInvalid, Hash(bad), "")
	})
}

func TestSecondConfigMapThatLostItsLabelOrData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, StatusConfigMap, ready, document("blog", good))
		r.edit("blog-status", func(cm *corev1.ConfigMap) { cm.Labels, cm.Data = nil, map[string]string{"note": "of a user"} })
		if second := r.get("blog-status"); second.Labels[label] != "website-status" || second.Data["Ready"] != "True" || second.Data["note"] == "" {
			t.Errorf("got %+v", second)
		}
		r.edit("blog-status", func(cm *corev1.ConfigMap) { cm.Data["Ready"] = "False" })
		r.edit("blog", func(cm *corev1.ConfigMap) { cm.Labels["woken"] = "now" })
		if second := r.get("blog-status"); second.Data["Ready"] != "True" {
			t.Errorf("got %+v", second)
		}
	})
}

func TestNameOfTheSecondConfigMapIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stranger := document("blog-status", "")
		stranger.Labels = nil
		r := start(t, StatusConfigMap, ready, document("blog", good), stranger)
		if diff := cmp.Diff(stranger.Data, r.get("blog-status").Data); diff != "" {
			t.Errorf("the stranger was changed (-want +got):\n%s", diff)
		}
		if got := r.reasons(); len(got) != 1 || got[0] != "Warning StatusNameTaken" {
			t.Errorf("Events %v", got)
		}
		r.server.Delete(stranger)
		for range 10 { // until the back-off has found it out
			r.settle()
		}
		if second := r.get("blog-status"); second.Data["Ready"] != "True" {
			t.Errorf("got %+v", second)
		}
	})
}

// A foreground deletion waits for the second ConfigMap, which must not come back meanwhile.
func TestNoSecondConfigMapDuringDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waiting := document("blog", good)
		waiting.Finalizers = []string{"foregroundDeletion"}
		progress := func(_ context.Context, site *Object[website]) (setpoint.Result, error) {
			if site.ConfigMap.DeletionTimestamp != nil {
				condition.Set(&site.Status.Conditions, metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Deleting"})
			}
			return setpoint.Result{}, nil
		}
		r := start(t, StatusConfigMap, progress, waiting)
		r.server.Delete(waiting)
		r.settle()
		second := r.get("blog-status")
		if second.Data["Ready"] != "False" {
			t.Errorf("the deletion is not shown: %+v", second)
		}
		r.server.Requests()
		r.server.Delete(second)
		r.settle()
		if got := r.writes(); len(got) != 0 || len(r.calls) != 3 {
			t.Errorf("calls %v, writes %v", r.calls, got)
		}
		apitest.Put(r.server, func() *corev1.ConfigMap { cm := r.get("blog"); cm.Finalizers = nil; return cm }())
	})
}
