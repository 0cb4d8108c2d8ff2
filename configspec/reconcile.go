package configspec

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/condition"
	"github.com/setpoint-dev/setpoint/event"
)

// Each returns the reconciler of the ConfigMaps with documents. It calls fn for each valid document, and
// for each that is being deleted; then it writes the status. A document that is not valid ends the
// reconcile with a terminal error, so that it is logged, counted, and looked at again when it changes.
func (d *Documents[T]) Each(fn func(context.Context, *Object[T]) (setpoint.Result, error)) func(context.Context, *corev1.ConfigMap) (setpoint.Result, error) {
	return func(ctx context.Context, cm *corev1.ConfigMap) (setpoint.Result, error) {
		if !d.holds(cm.Labels) {
			return setpoint.Result{}, nil // it lost the label, or is a status and was asked for by mistake
		}
		before, err := d.find(ctx, cm)
		if err != nil {
			return setpoint.Result{}, err
		}
		obj, invalid := d.object(cm, before)
		if invalid != nil && cm.DeletionTimestamp == nil {
			if err := d.report(ctx, obj, before); err != nil {
				return setpoint.Result{}, err
			}
			return setpoint.Result{}, setpoint.Terminal(invalid)
		}
		result, err := fn(ctx, obj)
		reportErr := d.report(ctx, obj, before)
		switch {
		case reportErr == nil:
			return result, err
		case setpoint.IsTerminal(err):
			return result, fmt.Errorf("%w, and before that: %v", reportErr, err) // which must be tried again
		default:
			return result, errors.Join(err, reportErr)
		}
	}
}

// object decides what a reconcile of a ConfigMap is about, and the status that it begins with.
func (d *Documents[T]) object(cm *corev1.ConfigMap, before kept) (*Object[T], *invalidError) {
	spec, hash, invalid := d.options.read(cm)
	obj := &Object[T]{ConfigMap: cm, Spec: spec, Status: before.copy()}
	obj.Status.Observed = hash
	valid := metav1.Condition{Type: ConditionValid, Status: metav1.ConditionTrue, Reason: ReasonValid}
	if invalid != nil {
		obj.Invalid = invalid
		valid.Status, valid.Reason, valid.Message = metav1.ConditionFalse, invalid.reason, invalid.Error()
	} else {
		obj.Status.Applied = hash
	}
	condition.Set(&obj.Status.Conditions, valid)
	return obj, invalid
}

// report writes the status if it changed, and an Event when what is to be said of the document did.
func (d *Documents[T]) report(ctx context.Context, obj *Object[T], before kept) error {
	if err := d.write(ctx, obj.ConfigMap, before, obj.Status); err != nil {
		return err
	}
	was, known := condition.Get(before.Conditions, ConditionValid)
	now, _ := condition.Get(obj.Status.Conditions, ConditionValid)
	switch {
	case was.Reason == now.Reason && was.Message == now.Message:
	case now.Status == metav1.ConditionFalse:
		d.events.Eventf(obj.ConfigMap, event.Warning, now.Reason, "Read", "%s", now.Message)
	case known:
		d.events.Eventf(obj.ConfigMap, event.Normal, now.Reason, "Read", "The document is valid again")
	}
	return nil
}
