package inproc

import (
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
)

// Host stands in the URLs of requests that never leave the process.
const Host = "https://plane.internal"

// RESTConfig is a client configuration for that server and user, without rate
// limits. server may return nil while there is none.
func RESTConfig(server func() *Server, as user.Info) *rest.Config {
	return &rest.Config{
		Host:      Host,
		Transport: Transport{Server: server, User: as},
		QPS:       -1,
	}
}
