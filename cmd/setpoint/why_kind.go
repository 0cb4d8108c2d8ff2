package main

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// kindLimit bounds each request that asks what a word means.
const kindLimit = 5 * time.Second

// fullKind returns the full name of a kind, as in "Deployment.apps", for what kubectl takes for it, such as deploy: the API server
// of config says so. It is empty for a word that the server does not know, or without a server.
func fullKind(config *rest.Config, word string) (string, error) {
	if config == nil {
		return "", nil
	}
	config = rest.CopyConfig(config)
	config.Timeout = kindLimit
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return "", err
	}
	cached := memory.NewMemCacheClient(client)
	mapper := restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(cached), cached, nil)
	kind, err := mapper.KindFor(schema.ParseGroupResource(word).WithVersion(""))
	switch {
	case meta.IsNoMatchError(err):
		return "", nil
	case err != nil:
		return "", err
	}
	return kind.GroupKind().String(), nil
}
