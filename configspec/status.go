package configspec

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/owner"
)

// maxStatus is the greatest size of an encoded status, in bytes. All annotations of an object together
// may have four times as many.
const maxStatus = 64 << 10

// secondStatusKey is the key of the status in a ConfigMap of its own.
const secondStatusKey = "status.yaml"

// record is a status as it is kept. It counts only for the ConfigMap of its UID: a copy of a ConfigMap
// begins anew, lest it takes for its own what Values say belongs to the original.
type record struct {
	UID types.UID `json:"uid"`
	Status
}

// kept is what was found of a document's past.
type kept struct {
	Status
	document string            // that of Status.Applied; empty: unknown
	texts    map[string]string // what all this was read from: annotations, or the data of the second ConfigMap
	second   *corev1.ConfigMap // nil: there is none that belongs to the first
}

// find reads what is kept of a document. A status that cannot be read is as if there were none.
func (v *visit[T]) find(ctx context.Context, cm *corev1.ConfigMap) (kept, error) {
	found := kept{texts: cm.Annotations}
	if v.options.Status == StatusConfigMap {
		second := &corev1.ConfigMap{}
		err := v.client.Get(ctx, types.NamespacedName{Namespace: cm.Namespace, Name: cm.Name + statusSuffix}, second)
		if client.IgnoreNotFound(err) != nil {
			return found, fmt.Errorf("read the status: %w", err)
		}
		found.texts = nil
		if err == nil && owner.IsControlledBy(second, cm) {
			found.second, found.texts = second, second.Data
		}
	}
	statusText, document := found.texts[v.statusKey()], found.texts[v.appliedKey()]
	var was record
	if err := yaml.Unmarshal([]byte(statusText), &was); err != nil {
		setpoint.Logger(ctx).Warn("the status of a document cannot be read and begins anew", "error", err)
	} else if was.UID == cm.UID {
		found.Status = was.Status
		if Hash(document) == was.Applied {
			found.document = document
		}
	}
	return found, nil
}

// statusKey and appliedKey are where the status and the last valid document are: keys of annotations, or of
// the data of the second ConfigMap.
func (d *Documents[T]) statusKey() string {
	if d.options.Status == StatusConfigMap {
		return secondStatusKey
	}
	return d.options.Label + statusSuffix
}

func (d *Documents[T]) appliedKey() string {
	if d.options.Status == StatusConfigMap {
		return d.options.Key
	}
	return d.options.Label + appliedSuffix
}

// texts returns what is to be kept: a status, and the document that it says is applied.
func (d *Documents[T]) texts(cm *corev1.ConfigMap, status Status, document string) (map[string]string, error) {
	data, err := json.Marshal(record{cm.UID, status})
	if err == nil && d.options.Status == StatusConfigMap {
		data, err = yaml.JSONToYAML(data)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("encode the status: %w", err)
	case len(data) > maxStatus:
		return nil, fmt.Errorf("the status has %d bytes, which is more than %d: keep less in conditions and values", len(data), maxStatus)
	}
	texts := map[string]string{d.statusKey(): string(data)}
	if document != "" {
		texts[d.appliedKey()] = document
	}
	if d.options.Status == StatusConfigMap {
		for _, c := range status.Conditions {
			texts[strings.ReplaceAll(c.Type, "/", ".")] = string(c.Status)
		}
	}
	return texts, nil
}

// write makes now what is kept of a document, if it is not that already, and returns what is kept then.
func (v *visit[T]) write(ctx context.Context, cm *corev1.ConfigMap, before, now kept) (kept, error) {
	if cm.DeletionTimestamp != nil && len(cm.Finalizers) == 0 {
		return before, nil // it is gone
	}
	var err error
	if now.texts, err = v.texts(cm, now.Status, now.document); err != nil {
		return before, err
	}
	if isWithin(now.texts, before.texts) {
		return before, nil
	}
	if v.options.Status == StatusConfigMap {
		now.second, err = v.writeSecond(ctx, cm, before.second, now.texts)
	} else {
		err = v.apply(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: cm.Namespace, Name: cm.Name, UID: cm.UID, Annotations: now.texts,
		}})
	}
	if err != nil {
		return before, fmt.Errorf("write the status: %w", err)
	}
	return now, nil
}

// isWithin reports whether have has all that want has.
func isWithin(want, have map[string]string) bool {
	for key, text := range want {
		if had, ok := have[key]; !ok || had != text {
			return false
		}
	}
	return true
}

// apply applies a part of a ConfigMap, as the owner of the status. One that is gone needs none.
func (v *visit[T]) apply(ctx context.Context, part *corev1.ConfigMap) error {
	err := v.client.Apply(ctx, part, client.FieldOwner("configspec-"+v.name), client.ForceOwnership)
	return client.IgnoreNotFound(err)
}
