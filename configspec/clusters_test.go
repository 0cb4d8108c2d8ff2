package configspec

import (
	"context"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/internal/apitest"
)

// A document's status and Events are kept in the cluster of the document.
func TestDocumentsInOtherClusters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		home, east := apitest.New(apitest.ConfigMaps, apitest.Events), apitest.New(apitest.ConfigMaps, apitest.Events)
		m, err := setpoint.NewManager(setpoint.Config{REST: home.REST(), FieldOwner: "test", Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		websites, err := New(m, "website", options)
		if err != nil {
			t.Fatal(err)
		}
		websites.For().In(setpoint.MemberClusters).Reconcile(websites.Each(ready))
		if err := m.AddCluster("east", setpoint.ClusterConfig{REST: east.REST()}); err != nil {
			t.Fatal(err)
		}
		apitest.Put(home, document("blog", good))
		apitest.Put(east, document("blog", bad))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- m.Run(ctx) }()
		r := rig{T: t}
		r.settle()
		found := document("blog", "")
		if !east.Get(found) {
			t.Fatal("it is gone")
		}
		says(t, parse(t, found.Annotations["example.com/spec-status"]), ReasonInvalid, Hash(bad), "")
		if events := east.Events(); len(events) != 1 || len(home.Events()) != 0 {
			t.Errorf("Events %v", events)
		}
		if cm := (&corev1.ConfigMap{ObjectMeta: found.ObjectMeta}); !home.Get(cm) || len(cm.Annotations) != 0 {
			t.Errorf("that of the manager's own cluster became %+v", cm)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
