package operate

import (
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// access says which cluster a command is for.
type access struct{ kubeconfig, context string }

func (a *access) addFlags(f *pflag.FlagSet) {
	f.StringVar(&a.kubeconfig, "kubeconfig", "", "the kubeconfig `file`; without it what kubectl would use, or the Pod's ServiceAccount")
	f.StringVar(&a.context, "context", "", "the `context` of the kubeconfig")
}

// config says how to reach the cluster.
func (a *access) config() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = a.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		rules, &clientcmd.ConfigOverrides{CurrentContext: a.context}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("no cluster found by --kubeconfig, as kubectl would find it, or by a ServiceAccount: %w", err)
	}
	return config, nil
}
