package plane

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/setpoint-dev/setpoint/plane/internal/pki"
)

// contextName is what the kubeconfig calls its cluster, user and context.
const contextName = "setpoint"

func kubeconfig(address string, authority *pki.Authority, admin *pki.Pair) ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters[contextName] = &clientcmdapi.Cluster{
		Server:                   "https://" + address,
		CertificateAuthorityData: authority.PEM,
	}
	config.AuthInfos[contextName] = &clientcmdapi.AuthInfo{
		ClientCertificateData: admin.Cert,
		ClientKeyData:         admin.Key,
	}
	config.Contexts[contextName] = &clientcmdapi.Context{Cluster: contextName, AuthInfo: contextName}
	config.CurrentContext = contextName
	out, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return out, nil
}
