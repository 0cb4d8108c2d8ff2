// Package clientcert authenticates requests by the client certificate of their
// connection, as upstream does, but does not verify it again for every request, which
// would be an eighth of the work of a small write.
//
// A verification counts for ten seconds, as upstream's of tokens does, and never
// longer than the certificates are valid. What is remembered is bounded; beyond the
// bound certificates are verified more often.
package clientcert

import (
	"crypto/x509"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"
)

const (
	// connections bounds how many connections' certificates are remembered.
	connections = 1024
	// counts is for how long a verification counts.
	counts = 10 * time.Second
)

// Authenticator implements authenticator.Request. Certificates that do not verify are
// left to those who come after it.
type Authenticator struct {
	verify   authenticator.Request
	verified *cache.LRUExpireCache // *x509.Certificate → *authenticator.Response
}

// New verifies certificates against what options return at that time. The user is the
// subject's common name, the groups are its organizations and system:authenticated.
func New(options x509request.VerifyOptionFunc) *Authenticator {
	verify := group.NewAuthenticatedGroupAdder(x509request.NewDynamic(options, x509request.CommonNameUserConversion))
	return &Authenticator{verify: verify, verified: cache.NewLRUExpireCache(connections)}
}

// AuthenticateRequest implements authenticator.Request.
func (a *Authenticator) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	if req.TLS == nil || len(req.TLS.PeerCertificates) == 0 {
		return nil, false, nil
	}
	leaf := req.TLS.PeerCertificates[0] // the same pointer in all requests of a connection
	if response, ok := a.verified.Get(leaf); ok {
		return response.(*authenticator.Response), true, nil
	}
	response, ok, err := a.verify.AuthenticateRequest(req)
	if err != nil || !ok {
		return nil, false, nil
	}
	a.verified.Add(leaf, response, validFor(req.TLS.PeerCertificates))
	return response, true, nil
}

// validFor is how long a verification of that chain counts.
func validFor(chain []*x509.Certificate) time.Duration {
	left := counts
	for _, certificate := range chain {
		left = min(left, time.Until(certificate.NotAfter))
	}
	return left
}
