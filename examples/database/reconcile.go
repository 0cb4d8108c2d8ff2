package database

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/condition"
	"github.com/setpoint-dev/setpoint/finalizer"
	"github.com/setpoint-dev/setpoint/owner"
	"github.com/setpoint-dev/setpoint/steps"
)

// A finalizer has to keep the Database while there is something to clean up that the garbage collector does not know.
const finalizerName = "example.setpoint.dev/volumes"

// bootstrapPeriod is how often the first instance is asked whether it is up.
const bootstrapPeriod = 5 * time.Second

type reconciler struct{ client *client.Client }

// reconcile brings up a Database, one stage after the other. A stage that has to wait ends the run; the next run begins at
// the first stage again, and finds done what was done.
func (r *reconciler) reconcile(ctx context.Context, db *Database) (setpoint.Result, error) {
	return steps.Run(ctx, db,
		steps.Finalizer(r.client, finalizerName, r.cleanUp), // the deletion's branch; nothing below runs in it
		steps.Do("secret", r.secret),
		steps.Do("config map", r.configMap),
		steps.Do("stateful set", r.statefulSet),
		steps.Do("service", r.service),
		steps.Do("bootstrap", r.bootstrap),
		steps.Do("primary", r.primary),
		steps.Last("status", r.status),
	)
}

// cleanUp stops the instances, and deletes their volumes when no instance can write to them any more. An orphaning deletion
// leaves both.
func (r *reconciler) cleanUp(ctx context.Context, db *Database) (steps.Outcome, error) {
	if finalizer.Has(db, metav1.FinalizerOrphanDependents) {
		return steps.Continue, nil
	}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: db.Namespace, Name: db.Name}}
	err := r.client.Get(ctx, client.KeyOf(set), set, client.Live)
	switch {
	case err == nil && !owner.IsControlledBy(set, db):
		return steps.Continue, nil // it was orphaned, and may use the volumes
	case err == nil:
		if set.DeletionTimestamp == nil {
			// In the foreground: it is there until its last Pod is gone.
			err = r.client.Delete(ctx, set, client.PropagationPolicy(metav1.DeletePropagationForeground))
		}
		return steps.Stop, client.IgnoreNotFound(err) // until a change of it wakes us
	case client.IgnoreNotFound(err) != nil:
		return steps.Stop, err
	}
	return steps.Continue, r.client.DeleteAllOf(ctx, &corev1.PersistentVolumeClaim{}, client.InNamespace(db.Namespace), client.MatchingLabels(labelsOf(db)))
}

// secret is made, never applied: applying it again would change the password.
func (r *reconciler) secret(ctx context.Context, db *Database) (steps.Outcome, error) {
	secret := &corev1.Secret{ObjectMeta: metaOf(db, "-password")}
	err := r.client.Get(ctx, client.KeyOf(secret), secret)
	if err == nil && !owner.IsControlledBy(secret, db) {
		return steps.Stop, stranger(secret)
	}
	if !apierrors.IsNotFound(err) {
		return steps.Continue, err
	}
	secret.StringData = map[string]string{"password": rand.Text()}
	if err := owner.SetController(db, secret, r.client.Scheme()); err != nil {
		return steps.Stop, err
	}
	return steps.Continue, r.client.Create(ctx, secret)
}

func (r *reconciler) configMap(ctx context.Context, db *Database) (steps.Outcome, error) {
	return steps.Continue, r.apply(ctx, db, &corev1.ConfigMap{ObjectMeta: metaOf(db, "-settings"), Data: db.Spec.Settings})
}

func (r *reconciler) statefulSet(ctx context.Context, db *Database) (steps.Outcome, error) {
	return steps.Continue, r.apply(ctx, db, statefulSetFor(db))
}

// service leads clients to the primary, whoever that is.
func (r *reconciler) service(ctx context.Context, db *Database) (steps.Outcome, error) {
	selector := labelsOf(db)
	selector[RoleLabel] = rolePrimary
	return steps.Continue, r.apply(ctx, db, &corev1.Service{
		ObjectMeta: metaOf(db, ""),
		Spec:       corev1.ServiceSpec{Selector: selector, Ports: []corev1.ServicePort{{Port: port, Protocol: corev1.ProtocolTCP}}},
	})
}

// bootstrap waits, once in a Database's life, for the first instance.
func (r *reconciler) bootstrap(ctx context.Context, db *Database) (steps.Outcome, error) {
	if condition.IsTrue(db.Status.Conditions, ConditionBootstrapped) {
		return steps.Continue, nil
	}
	var first corev1.Pod
	err := r.client.Get(ctx, types.NamespacedName{Namespace: db.Namespace, Name: db.Name + "-0"}, &first)
	if client.IgnoreNotFound(err) != nil {
		return steps.Stop, err
	}
	if err != nil || !ready(first) {
		return steps.After(bootstrapPeriod), nil
	}
	return steps.Continue, r.record(ctx, db, func(status *DatabaseStatus) {
		condition.Set(&status.Conditions, metav1.Condition{
			Type: ConditionBootstrapped, Status: metav1.ConditionTrue, Reason: "FirstInstanceReady", ObservedGeneration: db.Generation,
		})
	})
}

// primary decides who is the primary, writes that down, and only then carries it out. A run that is cut off anywhere is
// continued by the next, whatever instances came and went between.
func (r *reconciler) primary(ctx context.Context, db *Database) (steps.Outcome, error) {
	var pods corev1.PodList
	if err := r.client.List(ctx, &pods, client.InNamespace(db.Namespace), client.MatchingLabels(labelsOf(db))); err != nil {
		return steps.Stop, err
	}
	chosen := choose(pods.Items, db.Status.Primary)
	if chosen == "" {
		return steps.Stop, nil // until an instance gets ready
	}
	if chosen != db.Status.Primary {
		err := r.record(ctx, db, func(status *DatabaseStatus) {
			status.Primary = chosen
			condition.Set(&status.Conditions, notReady(db, "primary"))
		})
		if err != nil {
			return steps.Stop, err
		}
	}
	for _, change := range roleChanges(pods.Items, chosen) {
		text := fmt.Sprintf(`{"metadata":{"uid":%q,"labels":{%q:%s}}}`, change.pod.UID, RoleLabel, change.role)
		if err := r.client.Patch(ctx, &change.pod, client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
			return steps.Stop, err
		}
	}
	return steps.Continue, nil
}

// status says how far the stages came, whether they were all done or not.
func (r *reconciler) status(ctx context.Context, db *Database, progress steps.Progress) error {
	isReady := metav1.Condition{Type: ConditionReady, Status: metav1.ConditionTrue, Reason: "AllDone", ObservedGeneration: db.Generation}
	if !progress.Done() {
		isReady = notReady(db, progress.Step)
	}
	if progress.Err != nil {
		isReady.Reason, isReady.Message = "Failed", progress.Err.Error()
	}
	return client.IgnoreNotFound(r.record(ctx, db, func(status *DatabaseStatus) {
		condition.Set(&status.Conditions, isReady)
		status.ObservedGeneration = db.Generation
	}))
}

func notReady(db *Database, stage string) metav1.Condition {
	return metav1.Condition{
		Type: ConditionReady, Status: metav1.ConditionFalse, Reason: "InProgress", Message: fmt.Sprintf("At the stage %q.", stage),
		ObservedGeneration: db.Generation,
	}
}

// record changes the status, at the server and in db. With nothing to change it sends nothing.
func (r *reconciler) record(ctx context.Context, db *Database, change func(*DatabaseStatus)) error {
	before := db.DeepCopy()
	change(&db.Status)
	return r.client.Status().Patch(ctx, db, client.MergeFrom(before))
}

// apply makes a child what it should be, unless it is somebody else's.
func (r *reconciler) apply(ctx context.Context, db *Database, child client.Object) error {
	have := child.DeepCopyObject().(client.Object)
	err := r.client.Get(ctx, client.KeyOf(child), have)
	if err == nil && !owner.IsControlledBy(have, db) {
		return stranger(child)
	}
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err := owner.SetController(db, child, r.client.Scheme()); err != nil {
		return err
	}
	return r.client.Apply(ctx, child, client.ForceOwnership)
}

// stranger is why nothing is done with an object that is somebody else's, such as a predecessor's that is about to go.
func stranger(obj client.Object) error {
	return fmt.Errorf("%T %s is not this Database's: delete it, or use another name for the Database", obj, client.KeyOf(obj))
}
