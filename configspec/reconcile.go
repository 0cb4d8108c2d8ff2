package configspec

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/condition"
	"github.com/setpoint-dev/setpoint/event"
)

// visit is one reconcile, with what reaches the cluster of its ConfigMap.
type visit[T any] struct {
	*Documents[T]
	client *client.Client
	events *event.Recorder
}

// Each returns the reconciler of the ConfigMaps with documents. It calls fn for each that has, or had, a valid
// document, and for each that is being deleted, and keeps the status. When the document is not valid and fn
// has nothing to say, neither an error nor a Result, the reconcile ends with a terminal error, so that it is
// logged and counted.
func (d *Documents[T]) Each(fn func(context.Context, *Object[T]) (setpoint.Result, error)) func(context.Context, *corev1.ConfigMap) (setpoint.Result, error) {
	return func(ctx context.Context, cm *corev1.ConfigMap) (setpoint.Result, error) {
		if !d.holds(cm.Labels) {
			return setpoint.Result{}, nil // it lost the label, or is a status and was asked for by mistake
		}
		cluster := setpoint.ClusterOf(ctx)
		v := &visit[T]{Documents: d, client: cluster.Client(), events: cluster.Events(d.name)}
		before, err := v.find(ctx, cm)
		if err != nil {
			return setpoint.Result{}, err
		}
		obj := d.object(cm, before)
		if obj.Status.Applied != before.Applied {
			// A process that dies on the way to what a document says must not fall back to the one before.
			if before, err = v.report(ctx, obj, before); err != nil {
				return setpoint.Result{}, err
			}
		}
		var result setpoint.Result
		if obj.known || cm.DeletionTimestamp != nil {
			result, err = fn(ctx, obj)
		}
		if err == nil && result == (setpoint.Result{}) {
			err = setpoint.Terminal(obj.Invalid)
		}
		_, reportErr := v.report(ctx, obj, before)
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
func (d *Documents[T]) object(cm *corev1.ConfigMap, before kept) *Object[T] {
	obj := &Object[T]{ConfigMap: cm, Status: before.copy()}
	obj.applied, obj.document = before.Applied, before.document
	obj.valid = metav1.Condition{Type: ConditionValid, Status: metav1.ConditionTrue, Reason: ReasonValid}
	text, found := cm.Data[d.options.Key]
	if found {
		obj.observed = Hash(text)
	}
	spec, invalid := d.options.read(cm)
	if invalid == nil {
		obj.Spec, obj.known, obj.applied, obj.document = spec, true, obj.observed, text
	} else {
		obj.Invalid = invalid
		obj.valid.Status, obj.valid.Reason, obj.valid.Message = metav1.ConditionFalse, invalid.reason, invalid.Error()
		// The last one may be valid no more, when the program was replaced by one that asks for other things.
		last, invalid := d.options.parse(before.document)
		obj.Spec, obj.known = last, invalid == nil
	}
	obj.stamp()
	return obj
}

// report keeps the status if it changed, and records an Event when what is to be said of the document did. It
// returns what is kept then.
func (v *visit[T]) report(ctx context.Context, obj *Object[T], before kept) (kept, error) {
	obj.stamp()
	after, err := v.write(ctx, obj.ConfigMap, before, kept{Status: obj.Status.copy(), document: obj.document})
	if err != nil {
		return before, err
	}
	was, known := condition.Get(before.Conditions, ConditionValid)
	now := obj.valid
	switch {
	case was.Reason == now.Reason && was.Message == now.Message:
	case now.Status == metav1.ConditionFalse:
		v.events.Eventf(obj.ConfigMap, event.Warning, now.Reason, "Read", "%s", now.Message)
	case known:
		v.events.Eventf(obj.ConfigMap, event.Normal, now.Reason, "Read", "The document is valid again")
	}
	return after, nil
}
