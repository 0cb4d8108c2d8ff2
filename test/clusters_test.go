package test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/lease"
	"github.com/setpoint-dev/setpoint/owner"
	"github.com/setpoint-dev/setpoint/plane"
	"github.com/setpoint-dev/setpoint/plane/planetest"
)

// startBadges runs a controller that gives each ConfigMap with the label badge, in all clusters of m, a Secret of its name
// that says in which cluster it is and what the ConfigMap wants.
func startBadges(t *testing.T, m *setpoint.Manager) {
	t.Helper()
	setpoint.For[*corev1.ConfigMap](m, "badges").
		In(setpoint.AllClusters).
		Owns(&corev1.Secret{}).
		Workers(2).
		Reconcile(func(ctx context.Context, o *corev1.ConfigMap) (setpoint.Result, error) {
			if _, wanted := o.Labels["badge"]; !wanted {
				return setpoint.Result{}, nil
			}
			c := setpoint.ClusterOf(ctx)
			badge := &corev1.Secret{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
				ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name},
				StringData: map[string]string{"cluster": "in " + c.Name(), "wanted": o.Data["wanted"]},
			}
			if err := owner.SetController(o, badge, c.Client().Scheme()); err != nil {
				return setpoint.Result{}, err
			}
			return setpoint.Result{}, c.Client().Apply(ctx, badge)
		})
	begin(t, m)
}

// wantBadge applies a ConfigMap in a cluster and waits for its badge; it returns how long that took.
func wantBadge(t *testing.T, c planetest.Cluster, name, wanted, cluster string) time.Duration {
	t.Helper()
	user, err := client.New(client.Config{REST: c.RESTConfig(), FieldOwner: "user"})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	err = user.Apply(t.Context(), &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"badge": ""}},
		Data:       map[string]string{"wanted": wanted},
	})
	if err != nil {
		t.Fatal(err)
	}
	planetest.Wait(t, c, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}, func(s *corev1.Secret) bool {
		return string(s.Data["cluster"]) == "in "+cluster && string(s.Data["wanted"]) == wanted
	})
	return time.Since(began)
}

// Three API servers are three clusters of one manager: its own, one that is killed while it runs, and one that is added
// then, by its kubeconfig in a Secret.
func TestClusters(t *testing.T) {
	home := newCluster(t)
	killed := planetest.Start(t, plane.Config{APIOnly: true})
	added := planetest.Start(t, plane.Config{APIOnly: true, Listen: "127.0.0.1:0"})
	m, err := setpoint.NewManager(setpoint.Config{
		REST: home.RESTConfig(), FieldOwner: "badges", Seed: 1, GracePeriod: time.Second,
		LeaderElection: &lease.Config{Namespace: "default"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.AddCluster("killed", setpoint.ClusterConfig{REST: killed.RESTConfig()}); err != nil {
		t.Fatal(err)
	}
	setpoint.ClustersFromSecrets(m, setpoint.SecretClusters{Namespace: "default"})
	startBadges(t, m)

	for cluster, c := range map[string]planetest.Cluster{"": home, "killed": killed} {
		wantBadge(t, c, "site", "1", cluster)
	}
	before := wantBadge(t, home, "site", "2", "")
	last, err := client.New(client.Config{REST: killed.RESTConfig()})
	if err != nil {
		t.Fatal(err)
	}
	killed.Stop()
	if err := last.Get(t.Context(), types.NamespacedName{Name: "default"}, &corev1.Namespace{}); err == nil {
		t.Fatal("the cluster that was killed answers")
	}
	after := wantBadge(t, home, "site", "3", "")
	t.Logf("from an object to its badge in the manager's own cluster: %v with another cluster alive, %v after it was killed", before, after)

	kubeconfig, err := added.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	user, err := client.New(client.Config{REST: home.RESTConfig(), FieldOwner: "user"})
	if err != nil {
		t.Fatal(err)
	}
	err = user.Apply(t.Context(), &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "added", Labels: map[string]string{"setpoint.dev/cluster": ""}},
		Data:       map[string][]byte{"kubeconfig": kubeconfig},
	})
	if err != nil {
		t.Fatal(err)
	}
	wantBadge(t, added, "site", "1", "added")

	// A badge that somebody takes away comes back, in its own cluster.
	there, err := client.New(client.Config{REST: added.RESTConfig(), FieldOwner: "user"})
	if err != nil {
		t.Fatal(err)
	}
	if err := there.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "site"}}); err != nil {
		t.Fatal(err)
	}
	wantBadge(t, added, "site", "1", "added")

	ready := httptest.NewRecorder()
	m.Handler().ServeHTTP(ready, httptest.NewRequest(http.MethodGet, "/readyz?verbose", nil))
	if ready.Code != http.StatusOK {
		t.Errorf("/readyz %d: %s", ready.Code, ready.Body)
	}
	t.Logf("/readyz:\n%s", ready.Body)
	if err := m.RemoveCluster(t.Context(), "killed"); err != nil {
		t.Error(err)
	}
	wantBadge(t, home, "site", "4", "")
}
