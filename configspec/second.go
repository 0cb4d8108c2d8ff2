package configspec

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/event"
	"github.com/setpoint-dev/setpoint/owner"
)

// writeSecond gives the second ConfigMap of a document this data, and creates it if it is nil. It returns nil
// where there must be none.
func (v *visit[T]) writeSecond(ctx context.Context, cm, second *corev1.ConfigMap, data map[string]string) (*corev1.ConfigMap, error) {
	wanted := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: cm.Namespace, Name: cm.Name + statusSuffix, Labels: map[string]string{v.options.Label: v.name + statusSuffix},
	}}
	if err := owner.SetController(cm, wanted, v.client.Scheme()); err != nil {
		return second, err
	}
	if second == nil {
		if cm.DeletionTimestamp != nil {
			return nil, nil // the garbage collector would delete it, and a foreground deletion never end
		}
		var err error
		if second, err = v.create(ctx, cm, wanted.DeepCopy()); second == nil || err != nil {
			return nil, err
		}
	}
	wanted.UID, wanted.Data = second.UID, data
	return wanted, v.apply(ctx, wanted)
}

// create creates the second ConfigMap, without data, so that all of these are applied. It returns nil in a
// namespace that is going, and an error when the name is somebody else's.
func (v *visit[T]) create(ctx context.Context, cm, second *corev1.ConfigMap) (*corev1.ConfigMap, error) {
	err := v.client.Create(ctx, second)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return second, err
	}
	if err := v.client.Get(ctx, client.KeyOf(second), second, client.Live); err != nil {
		return nil, err
	}
	if owner.IsControlledBy(second, cm) {
		return second, nil // it lost its label
	}
	taken := fmt.Errorf("ConfigMap %s exists and does not belong to %s: delete it, or give the document another name", client.KeyOf(second), cm.Name)
	if by := owner.ControllerOf(second); by == nil || by.Name != cm.Name {
		v.events.Eventf(cm, event.Warning, "StatusNameTaken", "WriteStatus", "%s", taken.Error())
	} // else it belongs to one of this name that is gone, and the garbage collector is about to delete it
	return nil, taken
}
