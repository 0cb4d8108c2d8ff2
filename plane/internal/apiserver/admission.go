package apiserver

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	admissionmetrics "k8s.io/apiserver/pkg/admission/metrics"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	controlplaneadmission "k8s.io/kubernetes/pkg/controlplane/apiserver/admission"
	kubeadmission "k8s.io/kubernetes/pkg/kubeapiserver/admission"
	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"
)

// mapperTTL is how long policies and webhooks may work with outdated discovery.
const mapperTTL = 30 * time.Second

// lateAdmission is the chain of admission plugins. The servers are assembled with it
// while it is empty. It is filled when the informers of the policies have synced:
// the policies' plugins look for that at once, and then only every 100 ms, and refuse
// to judge until then.
//
// It also knows when the last judgement has been made, which requests do not: upstream
// judges in a goroutine that outlives a cancelled request, and that would wait for
// seconds for plugins that have ended.
type lateAdmission struct {
	admission.Interface

	mu      sync.Mutex
	judging int           // plugins that judge
	idle    chan struct{} // closed when the last of them is done; nil: not closed yet
}

// Admit implements admission.MutationInterface.
func (l *lateAdmission) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	chain, ok := l.Interface.(admission.MutationInterface)
	if !ok {
		return nil
	}
	return l.judge(func() error { return chain.Admit(ctx, a, o) })
}

// Validate implements admission.ValidationInterface.
func (l *lateAdmission) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	chain, ok := l.Interface.(admission.ValidationInterface)
	if !ok {
		return nil
	}
	return l.judge(func() error { return chain.Validate(ctx, a, o) })
}

func (l *lateAdmission) judge(do func() error) error {
	if !l.begin() {
		return apierrors.NewServiceUnavailable("the server is stopping")
	}
	defer l.end()
	return do()
}

// begin counts a judgement in, and reports false when there shall be no more.
func (l *lateAdmission) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.idle != nil {
		return false
	}
	l.judging++
	return true
}

func (l *lateAdmission) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.judging--; l.judging == 0 && l.idle != nil {
		close(l.idle)
	}
}

// close refuses all that is still to be judged, and returns when nothing is being
// judged. It waits for a channel: for a lock, virtual time would stand still, in
// which plugins wait, too.
func (l *lateAdmission) close() {
	l.mu.Lock()
	l.idle = make(chan struct{})
	if l.judging == 0 {
		close(l.idle)
	}
	l.mu.Unlock()
	<-l.idle
}

// startAdmission turns on the plugins that kube-apiserver turns on by default. The
// ServiceAccount plugin demands of Pods what only controllers make, so without
// controllers it is left out.
func (s *Server) startAdmission() error {
	initializers, err := s.admissionInitializers()
	if err != nil {
		return err
	}
	options := kubeoptions.NewAdmissionOptions().GenericAdmission
	names := slices.DeleteFunc(slices.Clone(options.RecommendedPluginOrder), func(name string) bool {
		return options.DefaultOffPlugins.Has(name) || s.config.APIOnly && name == "ServiceAccount"
	})
	unconfigured, err := admission.ReadAdmissionConfiguration(names, "", nil)
	if err != nil {
		return fmt.Errorf("configuring admission: %w", err)
	}
	chain, err := options.Plugins.NewFromPlugins(names, unconfigured, initializers, options.Decorators)
	if err != nil {
		return fmt.Errorf("setting up admission: %w", err)
	}
	s.admission.Interface = admissionmetrics.WithStepMetrics(chain)
	return nil
}

// admissionInitializers give the plugins what they want. What they start ends with
// the hooks.
func (s *Server) admissionInitializers() (admission.PluginInitializers, error) {
	config := s.generic
	dynamicClient, err := dynamic.NewForConfig(config.LoopbackClientConfig)
	if err != nil {
		return nil, fmt.Errorf("making the dynamic client of admission: %w", err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(s.client.Discovery()))
	go wait.UntilWithContext(s.hooks, func(context.Context) { mapper.Reset() }, mapperTTL)

	forWebhooks := controlplaneadmission.Config{
		ExternalInformers:    s.shared,
		LoopbackClientConfig: config.LoopbackClientConfig,
		APIResourceConfig:    s.resources,
	}
	webhooks, err := forWebhooks.New(s.transport, nil, s.services, config.TracerProvider)
	if err != nil {
		return nil, fmt.Errorf("making the initializers of admission: %w", err)
	}
	builtin, err := (&kubeadmission.Config{}).New()
	if err != nil {
		return nil, fmt.Errorf("making the initializers of admission: %w", err)
	}
	all := admission.PluginInitializers{
		initializer.NewAPIServerIDInitializer(config.APIServerID),
		initializer.New(s.client, dynamicClient, s.shared, config.Authorization.Authorizer, config.FeatureGate,
			config.EffectiveVersion, s.hooks.Done(), mapper),
	}
	return append(append(all, webhooks...), builtin...), nil
}
