package steps_test

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/condition"
	"github.com/setpoint-dev/setpoint/internal/apitest"
	"github.com/setpoint-dev/setpoint/owner"
	"github.com/setpoint-dev/setpoint/steps"
)

// Database is a custom resource.
type Database struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              DatabaseSpec   `json:"spec"`
	Status            DatabaseStatus `json:"status"`
}

type DatabaseSpec struct {
	Replicas int32 `json:"replicas"`
}

type DatabaseStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

func (d *Database) DeepCopyObject() runtime.Object {
	out := *d
	d.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Status.Conditions = append([]metav1.Condition(nil), d.Status.Conditions...)
	return &out
}

var databaseKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Database"}

// reconciler brings up a database in stages.
type reconciler struct {
	client *client.Client
	run    func(sql string) error // by the primary
}

func (r *reconciler) Reconcile(ctx context.Context, db *Database) (setpoint.Result, error) {
	return steps.Run(ctx, db,
		steps.Finalizer(r.client, "example.com/database", r.dropBackups),
		steps.Do("secret", r.secret),
		steps.Do("config map", r.configMap),
		steps.Do("stateful set", r.statefulSet),
		steps.Do("service", r.service),
		steps.Do("bootstrap", r.bootstrap),
		steps.Do("primary", r.primary),
		steps.Last("status", r.status),
	)
}

// dropBackups cleans up what the garbage collector does not know of.
func (r *reconciler) dropBackups(_ context.Context, db *Database) (steps.Outcome, error) {
	fmt.Println("backups of", db.Name, "dropped")
	return steps.Continue, nil
}

// secret is made once: applying it again would change the password.
func (r *reconciler) secret(ctx context.Context, db *Database) (steps.Outcome, error) {
	secret := &corev1.Secret{ObjectMeta: r.child(db, "password")}
	err := r.client.Get(ctx, client.KeyOf(secret), secret)
	if client.IgnoreNotFound(err) != nil || err == nil {
		return steps.Continue, err
	}
	secret.StringData = map[string]string{"password": "of eight words"}
	return steps.Continue, r.make(ctx, db, secret)
}

func (r *reconciler) configMap(ctx context.Context, db *Database) (steps.Outcome, error) {
	return steps.Continue, r.apply(ctx, db, &corev1.ConfigMap{
		ObjectMeta: r.child(db, "config"),
		Data:       map[string]string{"max_connections": "100"},
	})
}

func (r *reconciler) statefulSet(ctx context.Context, db *Database) (steps.Outcome, error) {
	return steps.Continue, r.apply(ctx, db, &appsv1.StatefulSet{
		ObjectMeta: r.child(db, "nodes"),
		Spec:       appsv1.StatefulSetSpec{Replicas: &db.Spec.Replicas, ServiceName: db.Name + "-service"},
	})
}

func (r *reconciler) service(ctx context.Context, db *Database) (steps.Outcome, error) {
	return steps.Continue, r.apply(ctx, db, &corev1.Service{
		ObjectMeta: r.child(db, "service"),
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 5432}}},
	})
}

// bootstrap waits for the first node: until it answers, nothing further can be done.
func (r *reconciler) bootstrap(context.Context, *Database) (steps.Outcome, error) {
	if err := r.run("SELECT 1"); err != nil {
		return steps.After(10 * time.Second), nil
	}
	return steps.Continue, nil
}

func (r *reconciler) primary(context.Context, *Database) (steps.Outcome, error) {
	return steps.Continue, r.run("SELECT pg_promote()")
}

// status tells how far the steps came, whether they were all done or not.
func (r *reconciler) status(ctx context.Context, db *Database, progress steps.Progress) error {
	ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Running", ObservedGeneration: db.Generation}
	if !progress.Done() {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, "InProgress", "waiting for step "+progress.Step
	}
	before := db.DeepCopyObject().(*Database)
	condition.Set(&db.Status.Conditions, ready)
	return r.client.Status().Patch(ctx, db, client.MergeFrom(before))
}

func (r *reconciler) child(db *Database, suffix string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: db.Namespace, Name: db.Name + "-" + suffix}
}

func (r *reconciler) make(ctx context.Context, db *Database, child client.Object) error {
	if err := owner.SetController(db, child, r.client.Scheme()); err != nil {
		return err
	}
	return r.client.Create(ctx, child)
}

func (r *reconciler) apply(ctx context.Context, db *Database, child client.Object) error {
	if err := owner.SetController(db, child, r.client.Scheme()); err != nil {
		return err
	}
	return r.client.Apply(ctx, child)
}

// Example is a database that is brought up in stages: each run does what is missing, and stops
// where it has to wait.
func Example() {
	kind := func(group, name, resource string) apitest.Kind {
		return apitest.Kind{GroupVersionKind: schema.GroupVersionKind{Group: group, Version: "v1", Kind: name}, Resource: resource}
	}
	server := apitest.New(kind("example.com", "Database", "databases"), apitest.Secrets, apitest.ConfigMaps,
		kind("apps", "StatefulSet", "statefulsets"), kind("", "Service", "services"))
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(databaseKind, &Database{})
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		fmt.Println(err)
		return
	}
	c, err := client.New(client.Config{REST: server.REST(), Scheme: scheme, FieldOwner: "database-operator"})
	if err != nil {
		fmt.Println(err)
		return
	}
	r := &reconciler{client: c, run: func(string) error { return fmt.Errorf("connection refused") }}
	ctx := context.Background()
	db := &Database{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orders"}, Spec: DatabaseSpec{Replicas: 3}}
	if err := c.Create(ctx, db); err != nil {
		fmt.Println(err)
		return
	}
	reconcile := func() {
		result, err := r.Reconcile(ctx, db)
		ready, _ := condition.Get(db.Status.Conditions, "Ready")
		fmt.Printf("ready: %s (%s), again after %v, error: %v\n", ready.Status, ready.Reason, result.RequeueAfter, err)
	}
	reconcile()
	r.run = func(string) error { return nil }
	reconcile()
	server.Delete(db)
	server.Get(db)
	reconcile()
	fmt.Println("gone:", !server.Get(db))
	// Output:
	// ready: False (InProgress), again after 10s, error: <nil>
	// ready: True (Running), again after 0s, error: <nil>
	// backups of orders dropped
	// ready: True (Running), again after 0s, error: <nil>
	// gone: true
}
