package webhook

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/client"
)

// target is an object that tells API servers which CAs to trust for webhooks.
type target struct {
	gvk  schema.GroupVersionKind
	name string
}

func (t target) String() string { return t.gvk.Kind + " " + t.name }

var (
	admission  = schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1"}
	extensions = schema.GroupVersion{Group: "apiextensions.k8s.io", Version: "v1"}
)

// read returns the target as it is, or nil when it does not exist.
func (t target) read(ctx context.Context, c *client.Client) (*unstructured.Unstructured, error) {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(t.gvk)
	err := c.Get(ctx, types.NamespacedName{Name: t.name}, obj, client.Live)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%v: %w", t, err)
	}
	return obj, nil
}

// inject gives the target the bundle, unless somebody else has written it since
// it was read, and reports whether it had to.
func inject(ctx context.Context, c *client.Client, obj *unstructured.Unstructured, bundle []byte) (bool, error) {
	configs, err := clientConfigs(obj.Object)
	if err != nil {
		return false, fmt.Errorf("%s %s: %w", obj.GetKind(), obj.GetName(), err)
	}
	text := base64.StdEncoding.EncodeToString(bundle)
	changed := false
	for _, config := range configs {
		if config["caBundle"] != text {
			config["caBundle"], changed = text, true
		}
	}
	if !changed {
		return false, nil
	}
	// The object carries the resourceVersion at which it was read: a precondition.
	if err := c.Update(ctx, obj); err != nil {
		return false, fmt.Errorf("give %s %s the CA bundle: %w", obj.GetKind(), obj.GetName(), err)
	}
	return true, nil
}

// clientConfigs returns the parts of a target that say how to reach a webhook.
func clientConfigs(content map[string]any) ([]map[string]any, error) {
	if content["kind"] == "CustomResourceDefinition" {
		config, found, err := unstructured.NestedFieldNoCopy(content, "spec", "conversion", "webhook", "clientConfig")
		if fields, ok := config.(map[string]any); ok {
			return []map[string]any{fields}, nil
		}
		if !found && err == nil {
			err = errors.New("spec.conversion has no webhook with a clientConfig")
		}
		return nil, err
	}
	webhooks, _ := content["webhooks"].([]any)
	var all []map[string]any
	for _, one := range webhooks {
		webhook, _ := one.(map[string]any)
		config, ok := webhook["clientConfig"].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("webhook %v has no clientConfig", webhook["name"])
		}
		all = append(all, config)
	}
	return all, nil
}
