package setpoint_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/finalizer"
	"github.com/setpoint-dev/setpoint/internal/apitest"
	"github.com/setpoint-dev/setpoint/owner"
)

// Tank is a kind whose controller keeps a ConfigMap of its name with its level, and a record in an external
// system that must not be made twice.
type Tank struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              TankSpec   `json:"spec"`
	Status            TankStatus `json:"status,omitzero"`
}

type TankSpec struct {
	Level int `json:"level"`
}

type TankStatus struct {
	External           string `json:"external,omitempty"` // id of the external record, or pending
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
}

type TankList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Tank `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (o *Tank) DeepCopyObject() runtime.Object {
	out := *o
	o.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *TankList) DeepCopyObject() runtime.Object {
	out := *l
	out.Items = make([]Tank, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Tank)
	}
	return &out
}

func (o *Tank) wanted() string { return fmt.Sprint(o.Spec.Level) }

var tankVersion = schema.GroupVersion{Group: "example.com", Version: "v1"}

var tanks = apitest.Kind{GroupVersionKind: tankVersion.WithKind("Tank"), Resource: "tanks"}

func tankScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(tankVersion, &Tank{}, &TankList{})
	metav1.AddToGroupVersion(scheme, tankVersion)
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		panic(err)
	}
	return scheme
}

// applies reports whether the child of that tank is written by apply, and not by create and update.
func applies(name string) bool { return name[len(name)-1]%2 == 0 }

func tankName(n int) string { return fmt.Sprintf("tank-%05d", n) }

func newTank(name string, level int) *Tank {
	return &Tank{
		TypeMeta:   metav1.TypeMeta{APIVersion: tankVersion.String(), Kind: "Tank"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       TankSpec{Level: level},
	}
}

func levelOf(tank string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: tank},
	}
}

const (
	tankFinalizer = "example.com/tank"
	pending       = "pending"
)

// tankReconciler is a reconciler as users write them.
type tankReconciler struct {
	t        *testing.T
	client   *client.Client
	external *external

	mu      sync.Mutex
	running map[string]bool
}

func (r *tankReconciler) reconcile(ctx context.Context, tank *Tank) (setpoint.Result, error) {
	defer r.enter(ctx, tank.Name)()
	if tank.DeletionTimestamp != nil {
		return setpoint.Result{}, r.cleanUp(ctx, tank)
	}
	if _, err := finalizer.Ensure(ctx, r.client, tank, tankFinalizer); err != nil {
		return setpoint.Result{}, err
	}
	id, err := r.keepRecord(ctx, tank)
	if err != nil {
		return setpoint.Result{}, err
	}
	if err := r.keepLevel(ctx, tank); err != nil {
		return setpoint.Result{}, err
	}
	before := *tank
	tank.Status = TankStatus{External: id, ObservedGeneration: tank.Generation}
	return setpoint.Result{}, r.client.Status().Patch(ctx, tank, client.MergeFrom(&before))
}

// enter checks that nobody else reconciles the tank and that there is a cause.
func (r *tankReconciler) enter(ctx context.Context, name string) (leave func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running[name] {
		r.t.Errorf("%s is reconciled twice at once", name)
	}
	if len(setpoint.Causes(ctx)) == 0 {
		r.t.Errorf("%s is reconciled without a cause", name)
	}
	r.running[name] = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.running, name)
	}
}

// keepRecord makes the external record. The status says that it may have been made before it is: only then it
// is looked for.
func (r *tankReconciler) keepRecord(ctx context.Context, tank *Tank) (string, error) {
	switch tank.Status.External {
	case pending:
		if id := r.external.find(tank); id != "" {
			return id, nil
		}
	case "":
		before := *tank
		tank.Status.External = pending
		if err := r.client.Status().Patch(ctx, tank, client.MergeFrom(&before)); err != nil {
			return "", err
		}
	default:
		return tank.Status.External, nil
	}
	return r.external.create(tank)
}

// keepLevel writes the child.
func (r *tankReconciler) keepLevel(ctx context.Context, tank *Tank) error {
	want := levelOf(tank.Name)
	want.Data = map[string]string{"level": tank.wanted()}
	if err := owner.SetController(tank, want, r.client.Scheme()); err != nil {
		return err
	}
	if applies(tank.Name) {
		return r.client.Apply(ctx, want, client.ForceOwnership)
	}
	have := levelOf(tank.Name)
	err := r.client.Get(ctx, client.KeyOf(have), have)
	switch {
	case apierrors.IsNotFound(err):
		return r.client.Create(ctx, want)
	case err != nil:
		return err
	case !owner.IsControlledBy(have, tank):
		return fmt.Errorf("%s is still there from another tank", have.Name)
	case have.Data["level"] == tank.wanted():
		return nil
	}
	have.Data = want.Data
	return r.client.Update(ctx, have)
}

func (r *tankReconciler) cleanUp(ctx context.Context, tank *Tank) error {
	if !finalizer.Has(tank, tankFinalizer) {
		return nil
	}
	if err := r.external.remove(tank); err != nil {
		return err
	}
	child := levelOf(tank.Name)
	if err := r.client.Get(ctx, client.KeyOf(child), child); client.IgnoreNotFound(err) != nil {
		return err
	} else if err == nil {
		if err := client.IgnoreNotFound(r.client.Delete(ctx, child)); err != nil {
			return err
		}
	}
	return finalizer.Remove(ctx, r.client, tank, tankFinalizer)
}

// external is a system whose records are made by calls that are not idempotent and may fail in every way.
type external struct {
	t    *testing.T
	note func(path string, met apitest.Fault)

	mu      sync.Mutex
	faults  *rand.Rand
	records map[string]record
	last    int
}

type record struct {
	owner types.UID
	id    string
}

// errNoAnswer is what callers get whose call may have worked.
var errNoAnswer = errors.New("the external system did not answer")

// fails draws whether a call meets a fault.
func (e *external) fails(tank *Tank) bool {
	fails := e.faults.IntN(20) == 0
	if fails {
		e.note(tank.Name, "external")
	}
	return fails
}

func (e *external) create(tank *Tank) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fails(tank) {
		return "", errNoAnswer
	}
	if was, ok := e.records[tank.Name]; ok {
		e.t.Errorf("%s (%s): a second record is made; there is %+v", tank.Name, tank.UID, was)
	}
	e.last++
	made := record{tank.UID, fmt.Sprint("record-", e.last)}
	e.records[tank.Name] = made
	if e.fails(tank) {
		return "", errNoAnswer
	}
	return made.id, nil
}

func (e *external) find(tank *Tank) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if found := e.records[tank.Name]; found.owner == tank.UID {
		return found.id
	}
	return ""
}

func (e *external) remove(tank *Tank) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.records, tank.Name)
	if e.fails(tank) {
		return errNoAnswer
	}
	return nil
}

func (e *external) all() map[string]record {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.records)
}
