package plane

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/setpoint-dev/setpoint/plane/internal/pki"
)

// ContextName is what a plane's kubeconfig calls its cluster, user and context.
const ContextName = "setpoint"

func kubeconfig(address string, authority *pki.Authority, admin *pki.Pair) ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters[ContextName] = &clientcmdapi.Cluster{
		Server:                   "https://" + address,
		CertificateAuthorityData: authority.PEM,
	}
	config.AuthInfos[ContextName] = &clientcmdapi.AuthInfo{
		ClientCertificateData: admin.Cert,
		ClientKeyData:         admin.Key,
	}
	config.Contexts[ContextName] = &clientcmdapi.Context{Cluster: ContextName, AuthInfo: ContextName}
	config.CurrentContext = ContextName
	out, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return out, nil
}
