package apiserver

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/apiserver/pkg/util/webhook"
	corelisters "k8s.io/client-go/listers/core/v1"
)

// serviceResolver finds where a Service is to be reached from this process, for
// webhooks and aggregated API servers. There is no kube-proxy, so a ClusterIP leads
// nowhere and the endpoints are taken instead; an ExternalName is taken literally,
// which lets a Service lead to "localhost".
type serviceResolver struct {
	services       corelisters.ServiceLister
	endpointSlices proxy.EndpointSliceGetter
}

// ResolveEndpoint implements webhook.ServiceResolver.
func (r serviceResolver) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	service, err := r.services.Services(namespace).Get(name)
	if err != nil {
		return nil, err
	}
	if service.Spec.Type == corev1.ServiceTypeExternalName {
		return &url.URL{Scheme: "https", Host: net.JoinHostPort(service.Spec.ExternalName, strconv.Itoa(int(port)))}, nil
	}
	return proxy.ResolveEndpoint(r.services, r.endpointSlices, namespace, name, port)
}

var _ webhook.ServiceResolver = serviceResolver{}

// newTransport reaches aggregated API servers, and Pods, Services and nodes through
// their proxy subresources. Those are reached by address, so their certificates
// cannot be checked against a name.
func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:             http.ProxyFromEnvironment,
		ForceAttemptHTTP2: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
	}
}
