package setpoint_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/internal/apitest"
)

// A controller that keeps a Secret beside each ConfigMap. In a program of your
// own, leave REST out: the cluster is found as kubectl finds it.
func Example() {
	server := apitest.New(apitest.ConfigMaps, apitest.Secrets)
	apitest.Put(server, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "greeting"}})

	m, err := setpoint.NewManager(setpoint.Config{REST: server.REST(), FieldOwner: "example"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	setpoint.For[*corev1.ConfigMap](m, "secrets").
		Owns(&corev1.Secret{}).
		Reconcile(func(ctx context.Context, cm *corev1.ConfigMap) (setpoint.Result, error) {
			fmt.Println("reconcile", setpoint.RequestFor(cm), "because", setpoint.Causes(ctx)[0].Verb)
			secret := &corev1.Secret{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
				ObjectMeta: metav1.ObjectMeta{Namespace: cm.Namespace, Name: cm.Name},
			}
			defer stop() // one is enough for an example
			return setpoint.Result{}, m.Client().Create(ctx, secret)
		})
	if err := m.Run(ctx); err != nil {
		fmt.Println(err)
	}
	fmt.Println(server.Count(apitest.Secrets), "secret")
	// Output:
	// reconcile default/greeting because added
	// 1 secret
}

// Terminal errors are not retried.
func ExampleTerminal() {
	err := setpoint.Terminal(fmt.Errorf("spec.size is %d: choose 1 to 5", 9))
	fmt.Println(setpoint.IsTerminal(err), err)
	// Output: true spec.size is 9: choose 1 to 5
}

// A map function turns a change of one object into requests for others.
func ExampleBuilder_Watches() {
	m, err := setpoint.NewManager(setpoint.Config{REST: apitest.New().REST()})
	if err != nil {
		fmt.Println(err)
		return
	}
	users := func(_ context.Context, secret client.Object) []setpoint.Request {
		return []setpoint.Request{{Namespace: secret.GetNamespace(), Name: secret.GetLabels()["used-by"]}}
	}
	setpoint.For[*corev1.ConfigMap](m, "users").
		Watches(&corev1.Secret{}, users).
		Reconcile(func(context.Context, *corev1.ConfigMap) (setpoint.Result, error) {
			return setpoint.Result{}, nil
		})

	secret := &corev1.Secret{}
	secret.Namespace, secret.Labels = "default", map[string]string{"used-by": "web"}
	fmt.Println(users(context.Background(), secret))
	// Output: [default/web]
}

// The same reconciler works in the manager's own cluster and in those that are
// added while it runs.
func ExampleManager_AddCluster() {
	home, added := apitest.New(apitest.ConfigMaps), apitest.New(apitest.ConfigMaps)
	for _, server := range []*apitest.Server{home, added} {
		apitest.Put(server, configMap("default", "greeting"))
	}
	m, err := setpoint.NewManager(setpoint.Config{REST: home.REST()})
	if err != nil {
		fmt.Println(err)
		return
	}
	names := make(chan string)
	setpoint.For[*corev1.ConfigMap](m, "greetings").
		In(setpoint.AllClusters).
		Reconcile(func(ctx context.Context, o *corev1.ConfigMap) (setpoint.Result, error) {
			c := setpoint.ClusterOf(ctx) // with the client, the cache and the Events of o's cluster
			names <- fmt.Sprintf("%q has %s", c.Name(), o.Name)
			return setpoint.Result{}, nil
		})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- m.Run(ctx) }()
	fmt.Println(<-names)
	if err := m.AddCluster("eu-1", setpoint.ClusterConfig{REST: added.REST()}); err != nil {
		fmt.Println(err)
	}
	fmt.Println(<-names)
	stop()
	fmt.Println(<-ended)
	// Output:
	// "" has greeting
	// "eu-1" has greeting
	// <nil>
}
