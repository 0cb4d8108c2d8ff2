package expose

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
)

// reconcileConfigMap brings the values that a ConfigMap asks for up to date. It also is who tells the author of a
// configuration that it makes no sense.
func (r *reconciler) reconcileConfigMap(ctx context.Context, cm *corev1.ConfigMap) (setpoint.Result, error) {
	if cm.DeletionTimestamp != nil {
		return setpoint.Result{}, nil
	}
	if text, found := cm.Data[configKey]; found && cm.Name == configName {
		r.report(cm, judgeConfig(text))
	}
	if only := r.options.Namespaces; len(only) > 0 && !slices.Contains(only, cm.Namespace) {
		return setpoint.Result{}, nil // it is in the operator's namespace, of which nothing but the configuration matters
	}
	c, valid, err := r.config(ctx, cm.Namespace)
	if err != nil || !valid && isAsking(cm) {
		return setpoint.Result{}, err
	}
	services, err := r.servicesFor(ctx, cm, c)
	if err != nil {
		return setpoint.Result{}, err
	}
	find := func(name string) *corev1.Service { return services[name] }
	own := r.own(configMapKind, client.KeyOf(cm))
	wishes, wrong := wishesOf(cm, find, c)
	in := inject(cm, wishes, own)
	wrong = append(wrong, in.problems...)
	files := maps.Clone(in.restore)
	if service := find(cm.Name); service != nil {
		rewritten, more := rewritesOf(cm, service, c)
		wrong = append(wrong, more...)
		for key, file := range rewritten {
			if _, injected := in.values[key]; !injected {
				files[key] = file
			}
		}
	}
	r.report(cm, wrong)
	err = writeConfigMap(ctx, r.client, "", cm, in, files, own)
	if isRejected(err) {
		r.report(cm, problems{{reasonRejected, fmt.Sprintf("The server does not accept the values: %v", err)}})
	}
	return setpoint.Result{}, outcomeOf(err)
}

// servicesFor returns the exposed Services whose values a ConfigMap asks for, by name.
func (r *reconciler) servicesFor(ctx context.Context, cm *corev1.ConfigMap, c Config) (map[string]*corev1.Service, error) {
	services := map[string]*corev1.Service{}
	for _, name := range union(servicesOf(cm), cm.Name) {
		var service corev1.Service
		err := r.client.Get(ctx, types.NamespacedName{Namespace: cm.Namespace, Name: name}, &service)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, fmt.Errorf("reading a Service that the ConfigMap names: %w", err)
		case asks(&service) && c.allows(name) && service.DeletionTimestamp == nil:
			services[name] = &service
		}
	}
	return services, nil
}

// writeConfigMap writes to a ConfigMap, of whose managedFields own are the operator's: first what is somebody else's, files
// and values that are given back, then its own values. A ConfigMap that is gone needs nothing.
func writeConfigMap(ctx context.Context, c *client.Client, as client.FieldOwner, cm *corev1.ConfigMap, in injection, files map[string]string, own []metav1.ManagedFieldsEntry) error {
	want, err := desiredConfigMap(cm, in)
	if err != nil {
		return err
	}
	if len(files) > 0 {
		before := cm.DeepCopy()
		maps.Copy(cm.Data, files)
		if err := c.Patch(ctx, cm, client.MergeFromWithOptimisticLock(before), as); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	if len(in.values) == 0 && !applies(own) {
		return nil
	}
	return client.IgnoreNotFound(c.Apply(ctx, want, client.ForceOwnership, as))
}
