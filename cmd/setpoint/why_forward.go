package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
)

// forward forwards a local port to a Pod's port, as kubectl port-forward does, and returns the endpoint behind it. A
// negative port is plain HTTP. Forwarding needs the right to create pods/portforward, and reaches also what listens on
// the Pod's loopback address. (The API server's proxy would not do: it takes the token out of the request.)
//
// Over TLS the Pod's certificate is not checked: it is mostly self-signed, and the API server leads to no other Pod.
func forward(ctx context.Context, config *rest.Config, pod string, port int) (endpoint, func(), error) {
	namespace, name, ok := strings.Cut(pod, "/")
	if !ok || port == 0 {
		return endpoint{}, nil, misuse{errors.New("--pod: want namespace/name, and a --port")}
	}
	dialer, err := podDialer(config, namespace, name)
	if err != nil {
		return endpoint{}, nil, err
	}
	scheme, remote := "https", port
	if port < 0 {
		scheme, remote = "http", -port
	}
	ready, stop := make(chan struct{}), make(chan struct{})
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{fmt.Sprint("0:", remote)}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		return endpoint{}, nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-ended:
		return endpoint{}, nil, err
	case <-ctx.Done():
		close(stop)
		return endpoint{}, nil, context.Cause(ctx)
	}
	closer := func() {
		close(stop)
		<-ended
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		closer()
		return endpoint{}, nil, err
	}
	client := clientWith(&tls.Config{InsecureSkipVerify: true})
	return endpoint{name: "Pod " + pod, url: fmt.Sprintf("%s://127.0.0.1:%d", scheme, ports[0].Local), http: client}, closer, nil
}

// podDialer connects to a Pod through the API server, by WebSocket and with old servers by SPDY.
func podDialer(config *rest.Config, namespace, name string) (httpstream.Dialer, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	u := client.CoreV1().RESTClient().Post().Namespace(namespace).Resource("pods").Name(name).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	old := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, u)
	current, err := portforward.NewSPDYOverWebsocketDialer(u, config)
	if err != nil {
		return nil, err
	}
	return portforward.NewFallbackDialer(current, old, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}
