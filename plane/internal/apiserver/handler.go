package apiserver

import (
	"context"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/filters/impersonation"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/features"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
)

// longRunning says which requests have no deadline.
func longRunning() request.LongRunningRequestCheck {
	return genericfilters.BasicLongRunningRequestCheck(
		sets.NewString("watch", "proxy"),
		sets.NewString("attach", "exec", "proxy", "log", "portforward"),
	)
}

// handlerChain is what a request passes before it reaches the API, outermost last.
//
// Of kube-apiserver's chain it leaves out what has no subject here: audit, tracing,
// CORS, limits of concurrency, and the wait groups and the extra goroutine per
// request of a graceful shutdown. The deadline of a request is kept: it is in its
// context, which the store and the webhook clients obey. What has no deadline ends
// with running.
func handlerChain(discoveryComplete <-chan struct{}, running context.Context) func(http.Handler, *genericapiserver.Config) http.Handler {
	return func(api http.Handler, c *genericapiserver.Config) http.Handler {
		h := filters.WithAuthorization(api, c.Authorization.Authorizer, c.Serializer)
		h = withImpersonation(h, c)
		h = filters.WithAuthentication(h, c.Authentication.Authenticator, unauthorized(c.Serializer),
			c.Authentication.APIAudiences, c.Authentication.RequestHeaderConfig)
		h = filters.WithWarningRecorder(h)
		h = filters.WithRequestDeadline(h, nil, nil, c.LongRunningFunc, c.Serializer, c.RequestTimeout)
		h = withStop(h, c.LongRunningFunc, running)
		h = filters.WithCacheControl(h)
		h = filters.WithLatencyTrackers(h)
		h = filters.WithRequestInfo(h, c.RequestInfoResolver)
		h = filters.WithRequestReceivedTimestamp(h)
		h = filters.WithMuxAndDiscoveryComplete(h, discoveryComplete)
		h = genericfilters.WithPanicRecovery(h, c.RequestInfoResolver)
		return filters.WithAuditInit(h)
	}
}

// withStop ends watches and other requests without a deadline with running. The
// others are left to finish.
func withStop(h http.Handler, isLong request.LongRunningRequestCheck, running context.Context) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		info, ok := request.RequestInfoFrom(req.Context())
		if !ok || !isLong(req, info) {
			h.ServeHTTP(w, req)
			return
		}
		ctx, cancel := context.WithCancel(req.Context())
		defer cancel()
		defer context.AfterFunc(running, cancel)()
		h.ServeHTTP(w, req.WithContext(ctx))
	})
}

func withImpersonation(h http.Handler, c *genericapiserver.Config) http.Handler {
	if c.FeatureGate.Enabled(features.ConstrainedImpersonation) {
		return impersonation.WithConstrainedImpersonation(h, c.Authorization.Authorizer, c.Serializer)
	}
	return impersonation.WithImpersonation(h, c.Authorization.Authorizer, c.Serializer)
}

func unauthorized(serializer runtime.NegotiatedSerializer) http.Handler {
	return filters.Unauthorized(serializer)
}
