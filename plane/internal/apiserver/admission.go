package apiserver

import (
	"fmt"
	"net/http"
	"slices"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	controlplaneadmission "k8s.io/kubernetes/pkg/controlplane/apiserver/admission"
	kubeadmission "k8s.io/kubernetes/pkg/kubeapiserver/admission"
	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"
)

// admit turns on the admission plugins that kube-apiserver turns on by default.
// Without controllers nobody makes the ServiceAccounts and root CA ConfigMaps that
// the ServiceAccount plugin demands of Pods, so it is left out with them. What the
// plugins start ends with stop.
func admit(config *genericapiserver.Config, stop <-chan struct{}, apiOnly bool, client kubernetes.Interface, shared informers.SharedInformerFactory,
	resources serverstorage.APIResourceConfigSource, services webhook.ServiceResolver, transport *http.Transport) error {
	dynamicClient, err := dynamic.NewForConfig(config.LoopbackClientConfig)
	if err != nil {
		return fmt.Errorf("making the dynamic client of admission: %w", err)
	}
	generic := controlplaneadmission.Config{
		ExternalInformers:    shared,
		LoopbackClientConfig: config.LoopbackClientConfig,
		APIResourceConfig:    resources,
	}
	initializers, err := generic.New(transport, nil, services, config.TracerProvider)
	if err != nil {
		return fmt.Errorf("making the initializers of admission: %w", err)
	}
	builtin, err := (&kubeadmission.Config{}).New()
	if err != nil {
		return fmt.Errorf("making the initializers of admission: %w", err)
	}
	options := kubeoptions.NewAdmissionOptions()
	if apiOnly {
		options.GenericAdmission.DisablePlugins = []string{"ServiceAccount"}
	}
	err = options.ApplyTo(config, shared, client, dynamicClient, config.FeatureGate, config.EffectiveVersion,
		slices.Concat([]admission.PluginInitializer{stopper(stop)}, initializers, builtin)...)
	if err != nil {
		return fmt.Errorf("setting up admission: %w", err)
	}
	return nil
}

// stopper tells the plugins when to stop. Upstream tells them of a signal that only
// its own way of running a server gives.
type stopper <-chan struct{}

// Initialize implements admission.PluginInitializer. It comes after the initializer
// that tells of the signal, and before any that starts something.
func (s stopper) Initialize(plugin admission.Interface) {
	if wants, ok := plugin.(initializer.WantsDrainedNotification); ok {
		wants.SetDrainedNotification(s)
	}
}
