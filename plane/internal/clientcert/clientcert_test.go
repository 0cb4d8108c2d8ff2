package clientcert

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

// counting answers for upstream's verification.
type counting struct {
	calls int
	err   error
}

func (c *counting) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	c.calls++
	name := req.TLS.PeerCertificates[0].Subject.CommonName
	return &authenticator.Response{User: &user.DefaultInfo{Name: name}}, c.err == nil, c.err
}

func request(leaf *x509.Certificate) *http.Request {
	return &http.Request{TLS: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}}
}

func certificate(name string, valid time.Duration) *x509.Certificate {
	c := &x509.Certificate{NotAfter: time.Now().Add(valid)}
	c.Subject.CommonName = name
	return c
}

func TestCertificateIsVerifiedOncePerConnectionAndTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		upstream := &counting{}
		a := &Authenticator{verify: upstream, verified: cache.NewLRUExpireCache(connections)}
		ask := func(leaf *x509.Certificate, calls int) {
			t.Helper()
			response, ok, err := a.AuthenticateRequest(request(leaf))
			if err != nil || !ok || response.User.GetName() != leaf.Subject.CommonName {
				t.Fatalf("got %v, %v, %v for %s", response, ok, err, leaf.Subject.CommonName)
			}
			if upstream.calls != calls {
				t.Fatalf("verified %d times, want %d", upstream.calls, calls)
			}
		}
		jane, other, brief := certificate("jane", time.Hour), certificate("other", time.Hour), certificate("brief", 3*time.Second)
		ask(jane, 1)
		ask(jane, 1)
		ask(other, 2)
		ask(brief, 3)
		ask(brief, 3)
		time.Sleep(4 * time.Second)
		ask(jane, 3)
		ask(brief, 4) // it has expired: upstream decides
		time.Sleep(counts)
		ask(jane, 5)
	})
}

func TestWhatDoesNotVerifyIsLeftToOthers(t *testing.T) {
	upstream := &counting{err: errors.New("unknown authority")}
	a := &Authenticator{verify: upstream, verified: cache.NewLRUExpireCache(connections)}
	stranger := certificate("stranger", time.Hour)
	for range 2 {
		if response, ok, err := a.AuthenticateRequest(request(stranger)); response != nil || ok || err != nil {
			t.Errorf("got %v, %v, %v", response, ok, err)
		}
	}
	if upstream.calls != 2 {
		t.Errorf("verified %d times, want 2: a refusal must not be remembered", upstream.calls)
	}
	if _, ok, err := a.AuthenticateRequest(&http.Request{TLS: &tls.ConnectionState{}}); ok || err != nil {
		t.Errorf("without certificate: %v, %v", ok, err)
	}
}
