package configspec_test

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/cache"
	"github.com/setpoint-dev/setpoint/configspec"
	"github.com/setpoint-dev/setpoint/internal/apitest"
)

// Website is what a document says.
type Website struct {
	Host     string `json:"host"`
	Replicas int    `json:"replicas"`
}

// A controller of websites, each a document in a ConfigMap. In a program of your own, leave REST out: the
// cluster is found as kubectl finds it.
func Example() {
	server := apitest.New(apitest.ConfigMaps, apitest.Events)
	apitest.Put(server, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "blog", Labels: map[string]string{"example.com/spec": "website"}},
		Data:       map[string]string{"spec.yaml": "host: blog.example.com\n"},
	})

	m, err := setpoint.NewManager(setpoint.Config{
		REST: server.REST(), FieldOwner: "example",
		Kinds: map[schema.GroupKind]cache.Options{{Kind: "ConfigMap"}: configspec.Cache("example.com/spec", "web")},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	websites, err := configspec.New(m, "website", configspec.Options[Website]{
		Label:   "example.com/spec",
		Default: func(w *Website) { w.Replicas = max(w.Replicas, 1) },
		Validate: func(w *Website) error {
			if w.Host == "" {
				return errors.New("host is missing")
			}
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	websites.For().
		Reconcile(websites.Each(func(ctx context.Context, site *configspec.Object[Website]) (setpoint.Result, error) {
			fmt.Println(site.ConfigMap.Name, "serves", site.Spec.Host, "with", site.Spec.Replicas, "replica")
			site.Status.Values = map[string]string{"url": "https://" + site.Spec.Host}
			stop() // one is enough for an example
			return setpoint.Result{}, nil
		}))
	if err := m.Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output: blog serves blog.example.com with 1 replica
}
