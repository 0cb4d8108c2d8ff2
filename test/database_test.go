package test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/condition"
	"github.com/setpoint-dev/setpoint/examples/database"
	"github.com/setpoint-dev/setpoint/finalizer"
	"github.com/setpoint-dev/setpoint/plane/planetest"
)

// databases is a plane with the kind Database of examples/database, and a user of it.
type databases struct {
	*testing.T
	planetest.Cluster
	scheme *runtime.Scheme
	user   *client.Client
}

func withDatabases(t *testing.T, test func(d *databases)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := planetest.New(t)
		planetest.Apply(t, p, "../examples/database/manifests")
		scheme := runtime.NewScheme()
		if err := errors.Join(clientgoscheme.AddToScheme(scheme), database.AddToScheme(scheme)); err != nil {
			t.Fatal(err)
		}
		user, err := client.New(client.Config{REST: p.RESTConfig(), Scheme: scheme, FieldOwner: "test"})
		if err != nil {
			t.Fatal(err)
		}
		test(&databases{T: t, Cluster: p, scheme: scheme, user: user})
	})
}

// start runs the operator, whose requests pass wrap.
func (d *databases) start(wrap func(http.RoundTripper) http.RoundTripper) (stop func()) {
	d.Helper()
	config := d.RESTConfig()
	config.Wrap(wrap)
	m, err := setpoint.NewManager(setpoint.Config{REST: config, Scheme: d.scheme, FieldOwner: "database-operator", GracePeriod: -1})
	if err != nil {
		d.Fatal(err)
	}
	database.Setup(m)
	return begin(d.T, m)
}

func (d *databases) create(name string) *database.Database {
	d.Helper()
	db := &database.Database{
		TypeMeta:   metav1.TypeMeta{APIVersion: database.GroupVersion.String(), Kind: "Database"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
	}
	if err := d.user.Create(d.Context(), db); err != nil {
		d.Fatal(err)
	}
	return db
}

// led waits until a Database is ready and says that the instance of that number is its primary.
func (d *databases) led(db *database.Database, number int) {
	d.Helper()
	primary := fmt.Sprintf("%s-%d", db.Name, number)
	planetest.Wait(d.T, d, db, func(db *database.Database) bool {
		return db.Status.Primary == primary && condition.IsTrueFor(db.Status.Conditions, database.ConditionReady, db.Generation)
	})
	if got := d.primaries(db); len(got) != 1 || got[0] != primary {
		d.Errorf("the primaries are %v, want %s alone", got, primary)
	}
}

// primaries returns the instances that are the primary at this moment.
func (d *databases) primaries(db *database.Database) []string {
	d.Helper()
	var pods corev1.PodList
	if err := d.user.List(d.Context(), &pods, client.InNamespace("default"), client.MatchingLabels{database.RoleLabel: "primary"}); err != nil {
		d.Fatal(err)
	}
	var names []string
	for _, pod := range pods.Items {
		if pod.Labels["example.setpoint.dev/database"] == db.Name {
			names = append(names, pod.Name)
		}
	}
	return names
}

func (d *databases) password(db *database.Database) string {
	d.Helper()
	var secret corev1.Secret
	key := client.KeyOf(db)
	key.Name += "-password"
	if err := d.user.Get(d.Context(), key, &secret); err != nil {
		d.Fatal(err)
	}
	return string(secret.Data["password"])
}

// annotate sets an annotation of an instance's Pod.
func (d *databases) annotate(db *database.Database, number int, name, value string) {
	d.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("%s-%d", db.Name, number)}}
	mergePatch(d.T, d.user, pod, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, name, value))
}

// crash lets so many writes through, and nothing after the last, whose answer is lost: as if the operator had been killed
// right after it. It closes the channel then. Each write is checked.
func crash(after int, check func()) (wrap func(http.RoundTripper) http.RoundTripper, crashed <-chan struct{}) {
	ended := make(chan struct{})
	turn := make(chan int, 1)
	turn <- 0
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet || r.URL.Path == "/apis/events.k8s.io/v1/namespaces/default/events" {
				select {
				case <-ended:
					return nil, errors.New("the operator is dead")
				default:
					return next.RoundTrip(r)
				}
			}
			writes := <-turn
			defer func() { turn <- writes }()
			if writes == after {
				return nil, errors.New("the operator is dead")
			}
			writes++
			response, err := next.RoundTrip(r)
			check()
			if writes == after {
				close(ended)
				if err == nil {
					response.Body.Close()
				}
				return nil, errors.New("the operator dies")
			}
			return response, err
		})
	}, ended
}

// TestDatabase is the life of one.
func TestDatabase(t *testing.T) {
	withDatabases(t, func(d *databases) {
		sent := &requestLog{}
		d.start(sent.wrap)
		db := d.create("orders")
		d.led(db, 0)
		password := d.password(db)
		if password == "" {
			d.Error("there is no password")
		}
		time.Sleep(time.Minute)
		sent.take()
		time.Sleep(time.Minute)
		for _, line := range sent.take() {
			if line[:5] != "WATCH" {
				d.Errorf("with nothing to do it asked for %s", line)
			}
		}

		// What was changed comes back, but for the password.
		set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orders"}}
		mergePatch(d.T, d.user, db.DeepCopy(), `{"spec":{"settings":{"max_connections":"100"}}}`)
		settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orders-settings"}}
		planetest.Wait(d.T, d, settings, func(c *corev1.ConfigMap) bool { return c.Data["max_connections"] == "100" })
		service := &corev1.Service{ObjectMeta: set.ObjectMeta}
		mergePatch(d.T, d.user, service.DeepCopy(), `{"spec":{"selector":{"a":"b"}}}`)
		planetest.Wait(d.T, d, service, func(s *corev1.Service) bool { return s.Spec.Selector["a"] == "" })
		if d.password(db) != password {
			d.Error("the password is another one")
		}

		// The primary fails: the one that has come furthest follows, and stays when the first is back.
		for number, position := range []string{"30", "10", "20"} {
			d.annotate(db, number, database.PositionAnnotation, position)
		}
		d.annotate(db, 0, "node.setpoint.dev/ready", "never")
		d.led(db, 2)
		d.annotate(db, 0, "node.setpoint.dev/ready", "0s")
		planetest.Wait(d.T, d, set, func(s *appsv1.StatefulSet) bool { return s.Status.ReadyReplicas == 3 })
		d.led(db, 2)

		d.gone(db)
	})
}

// Deleted with its dependents orphaned, a Database leaves its instances and their volumes.
func TestDatabaseOrphans(t *testing.T) {
	for _, running := range []bool{true, false} { // when it is deleted
		t.Run(fmt.Sprint(running), func(t *testing.T) {
			withDatabases(t, func(d *databases) {
				stop := d.start(asTransport)
				db := d.create("orders")
				d.led(db, 0)
				if !running {
					stop()
				}
				if err := d.user.Delete(d.Context(), db, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
					d.Fatal(err)
				}
				if !running {
					planetest.Wait(d.T, d, db, func(db *database.Database) bool { return !finalizer.Has(db, metav1.FinalizerOrphanDependents) })
					d.start(asTransport)
				}
				planetest.WaitGone(d.T, d, db)
				time.Sleep(time.Minute)
				set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orders"}}
				planetest.Wait(d.T, d, set, func(s *appsv1.StatefulSet) bool { return s.DeletionTimestamp == nil && s.Status.ReadyReplicas == 3 })
				var volumes corev1.PersistentVolumeClaimList
				if err := d.user.List(d.Context(), &volumes, client.InNamespace("default")); err != nil {
					d.Fatal(err)
				}
				for _, v := range volumes.Items {
					if v.DeletionTimestamp != nil {
						d.Errorf("the volume %s is being deleted", v.Name)
					}
				}
				if len(volumes.Items) != 3 {
					d.Errorf("%d volumes are left", len(volumes.Items))
				}
			})
		})
	}
}

// The password that another object holds, such as a predecessor's that is about to go, is not taken for its own.
func TestDatabaseLeavesStrangersSecretsAlone(t *testing.T) {
	withDatabases(t, func(d *databases) {
		strange := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orders-password"}}
		if err := d.user.Create(d.Context(), strange); err != nil {
			d.Fatal(err)
		}
		d.start(asTransport)
		db := d.create("orders")
		planetest.Wait(d.T, d, db, func(db *database.Database) bool {
			c, _ := condition.Get(db.Status.Conditions, database.ConditionReady)
			return c.Status == metav1.ConditionFalse && strings.Contains(c.Message, "is not this Database's")
		})
		if err := d.user.Delete(d.Context(), strange); err != nil {
			d.Fatal(err)
		}
		d.led(db, 0)
		if d.password(db) == "" {
			d.Error("there is no password")
		}
	})
}

// gone deletes a Database and waits until nothing of it is left.
func (d *databases) gone(db *database.Database) {
	d.Helper()
	if err := d.user.Delete(d.Context(), db); err != nil {
		d.Fatal(err)
	}
	planetest.WaitGone(d.T, d, db)
	for _, list := range []client.ObjectList{&corev1.PersistentVolumeClaimList{}, &corev1.PodList{}, &appsv1.StatefulSetList{}, &corev1.SecretList{}} {
		if err := d.user.List(d.Context(), list, client.InNamespace("default"), client.MatchingLabels{"example.setpoint.dev/database": db.Name}); err != nil {
			d.Fatal(err)
		}
		objects, err := meta.ExtractList(list)
		if err != nil {
			d.Fatal(err)
		}
		for _, obj := range objects {
			planetest.WaitGone(d.T, d, obj.(client.Object))
		}
	}
}

// TestDatabaseSurvivesAnyRestart kills the operator after each of its writes, in the building-up, in a fail-over and in
// the deletion. Each time another one brings it to the same end, and there are never two primaries.
func TestDatabaseSurvivesAnyRestart(t *testing.T) {
	withDatabases(t, func(d *databases) {
		writes := map[string]int{} // that a stage has, once it is known
		for after := 1; len(writes) < 3; after++ {
			db := d.create(fmt.Sprintf("db%d", after))
			survive := func(stage string, reaches func()) {
				if writes[stage] == 0 && !d.killed(db, after) {
					writes[stage] = after - 1
				}
				stop := d.start(asTransport)
				reaches()
				stop()
			}
			survive("building up", func() { d.led(db, 0) })
			d.annotate(db, 1, database.PositionAnnotation, "1")
			d.annotate(db, 0, "node.setpoint.dev/ready", "never")
			survive("failing over", func() { d.led(db, 1) })
			if err := d.user.Delete(d.Context(), db); err != nil {
				d.Fatal(err)
			}
			survive("cleaning up", func() { planetest.WaitGone(d.T, d, db) })
		}
		d.Logf("the operator was killed after each of its writes: %v", writes)
		if writes["building up"] < 8 || writes["failing over"] < 4 || writes["cleaning up"] < 3 {
			d.Error("these are fewer than there must be")
		}
	})
}

func asTransport(next http.RoundTripper) http.RoundTripper { return next }

// killed runs an operator until it was killed after so many writes, and reports whether it was: it may not write so often.
func (d *databases) killed(db *database.Database, after int) bool {
	d.Helper()
	wrap, crashed := crash(after, func() {
		if got := d.primaries(db); len(got) > 1 {
			d.Errorf("after one of %d writes there are the primaries %v", after, got)
		}
	})
	defer d.start(wrap)()
	select {
	case <-crashed:
		return true
	case <-time.After(20 * time.Second):
		return false
	}
}
