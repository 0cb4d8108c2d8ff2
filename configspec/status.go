package configspec

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/event"
	"github.com/setpoint-dev/setpoint/owner"
)

// maxStatus is the greatest size of an encoded status, in bytes. All annotations of an object together
// may have four times as many.
const maxStatus = 64 << 10

// statusKey is the key of the status in a ConfigMap of its own.
const statusKey = "status.yaml"

// record is a status as it is kept. It counts only for the ConfigMap of its UID: a copy of a ConfigMap
// begins anew, lest it takes for its own what Values say belongs to the original.
type record struct {
	UID types.UID `json:"uid"`
	Status
}

// kept is the status that was found, and where.
type kept struct {
	Status
	text string            // of the record
	in   *corev1.ConfigMap // the second ConfigMap, if it is there and belongs to the first
}

// find reads the status of a document. One that cannot be read is as if there were none.
func (d *Documents[T]) find(ctx context.Context, cm *corev1.ConfigMap) (kept, error) {
	var found kept
	if d.options.Status == Annotation {
		found.text = cm.Annotations[d.annotation()]
	} else {
		second := &corev1.ConfigMap{}
		err := d.client.Get(ctx, types.NamespacedName{Namespace: cm.Namespace, Name: cm.Name + statusSuffix}, second)
		if client.IgnoreNotFound(err) != nil {
			return found, fmt.Errorf("read the status: %w", err)
		}
		if err == nil && owner.IsControlledBy(second, cm) {
			found.in, found.text = second, second.Data[statusKey]
		}
	}
	if found.text == "" {
		return found, nil
	}
	var was record
	if err := yaml.Unmarshal([]byte(found.text), &was); err != nil {
		setpoint.Logger(ctx).Warn("the status of a document cannot be read and begins anew", "error", err)
	} else if was.UID == cm.UID {
		found.Status = was.Status
	}
	return found, nil
}

// write makes now the status, if it is not that already.
func (d *Documents[T]) write(ctx context.Context, cm *corev1.ConfigMap, before kept, now Status) error {
	if cm.DeletionTimestamp != nil && len(cm.Finalizers) == 0 {
		return nil // it is gone
	}
	data, err := json.Marshal(record{cm.UID, now})
	if err == nil && d.options.Status == StatusConfigMap {
		data, err = yaml.JSONToYAML(data)
	}
	switch {
	case err != nil:
		return fmt.Errorf("encode the status: %w", err)
	case len(data) > maxStatus:
		return fmt.Errorf("the status has %d bytes, which is more than %d: keep less in conditions and values", len(data), maxStatus)
	case d.options.Status == StatusConfigMap:
		err = d.writeSecond(ctx, cm, before.in, contents(string(data), now))
	case before.text != string(data):
		err = d.apply(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: cm.Namespace, Name: cm.Name, UID: cm.UID, Annotations: map[string]string{d.annotation(): string(data)},
		}})
	}
	if err != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	return nil
}

// contents returns the data of a second ConfigMap.
func contents(text string, status Status) map[string]string {
	data := map[string]string{statusKey: text}
	for _, c := range status.Conditions {
		data[strings.ReplaceAll(c.Type, "/", ".")] = string(c.Status)
	}
	return data
}

// writeSecond gives the second ConfigMap the data that it lacks, and creates it if it is nil.
func (d *Documents[T]) writeSecond(ctx context.Context, cm, second *corev1.ConfigMap, data map[string]string) error {
	lacks := func(key string) bool { return second.Data[key] != data[key] }
	if second != nil && !slices.ContainsFunc(slices.Collect(maps.Keys(data)), lacks) {
		return nil
	}
	wanted := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: cm.Namespace, Name: cm.Name + statusSuffix, Labels: map[string]string{d.options.Label: d.name + statusSuffix},
	}}
	if err := owner.SetController(cm, wanted, d.client.Scheme()); err != nil {
		return err
	}
	if second == nil {
		if cm.DeletionTimestamp != nil {
			return nil // the garbage collector would delete it, and a foreground deletion never end
		}
		var err error
		if second, err = d.create(ctx, cm, wanted.DeepCopy()); second == nil || err != nil {
			return err
		}
	}
	wanted.UID, wanted.Data = second.UID, data
	return d.apply(ctx, wanted)
}

// create creates the second ConfigMap, without data, so that all of these are applied. It returns nil in a
// namespace that is going, and an error when the name is somebody else's.
func (d *Documents[T]) create(ctx context.Context, cm, second *corev1.ConfigMap) (*corev1.ConfigMap, error) {
	err := d.client.Create(ctx, second)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return second, err
	}
	if err := d.client.Get(ctx, client.KeyOf(second), second, client.Live); err != nil {
		return nil, err
	}
	if owner.IsControlledBy(second, cm) {
		return second, nil // it lost its label
	}
	taken := fmt.Errorf("ConfigMap %s exists and does not belong to %s: delete it, or give the document another name", client.KeyOf(second), cm.Name)
	if by := owner.ControllerOf(second); by == nil || by.Name != cm.Name {
		d.events.Eventf(cm, event.Warning, "StatusNameTaken", "WriteStatus", "%s", taken.Error())
	} // else it belongs to one of this name that is gone, and the garbage collector is about to delete it
	return nil, taken
}

// apply applies a part of a ConfigMap, as the owner of the status.
func (d *Documents[T]) apply(ctx context.Context, part *corev1.ConfigMap) error {
	err := d.client.Apply(ctx, part, client.FieldOwner("configspec-"+d.name), client.ForceOwnership)
	return client.IgnoreNotFound(err)
}
