package webhook

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"slices"
	"time"
)

// keyring is all that the replicas share.
type keyring struct {
	signer  keyPair             // the CA that signs
	old     []*x509.Certificate // CAs that signed before and have not expired, the latest first
	serving keyPair
	// bridges are sent along with the certificate: each lets who trusts an old CA
	// trust the one that came after it. The latest comes first.
	bridges []*x509.Certificate
}

// bundle returns the CAs that API servers must trust, in PEM.
func (k *keyring) bundle() []byte {
	return encodeCerts(append([]*x509.Certificate{k.signer.cert}, k.old...)...)
}

// chain returns what is sent to whoever connects.
func (k *keyring) chain() []*x509.Certificate {
	return append([]*x509.Certificate{k.serving.cert}, k.bridges...)
}

// tls returns the certificate as a server uses it.
func (k *keyring) tls() *tls.Certificate {
	cert := &tls.Certificate{PrivateKey: k.serving.key, Leaf: k.serving.cert}
	for _, link := range k.chain() {
		cert.Certificate = append(cert.Certificate, link.Raw)
	}
	return cert
}

// policy says when a keyring changes.
type policy struct {
	name       string // of the CAs
	hosts      []string
	caLifetime time.Duration
	lifetime   time.Duration
	rotateAt   float64 // share of a lifetime
}

// advance returns the keyring that follows from have at a time, and what has
// changed: nothing, or every step that is due. have is nil when there is none
// yet, and is not changed.
func (p policy) advance(have *keyring, now time.Time) (*keyring, []string, error) {
	if have == nil {
		fresh, err := p.fresh(now)
		return fresh, []string{"made a certificate authority"}, err
	}
	if have.signer.expired(now) {
		fresh, err := p.fresh(now)
		return fresh, []string{"made a certificate authority, as the last had expired"}, err
	}
	k := *have
	var steps []string
	valid := func(cert *x509.Certificate) bool { return now.Before(cert.NotAfter) }
	if kept := filter(k.old, valid); len(kept) < len(k.old) {
		k.old, k.bridges = kept, filter(k.bridges, valid)
		steps = append(steps, "dropped an expired certificate authority")
	}
	if k.signer.due(now, p.rotateAt) {
		next, err := newCA(p.name, now, p.caLifetime)
		if err != nil {
			return nil, nil, err
		}
		bridge, err := k.signer.vouch(next.cert, now)
		if err != nil {
			return nil, nil, err
		}
		k.old = append([]*x509.Certificate{k.signer.cert}, k.old...)
		k.bridges = append([]*x509.Certificate{bridge}, k.bridges...)
		k.signer = next
		steps = append(steps, "made the next certificate authority")
	}
	if hosts, why := p.reissue(&k, now); why != "" {
		serving, err := k.signer.issue(hosts, now, p.lifetime)
		if err != nil {
			return nil, nil, err
		}
		k.serving = serving
		steps = append(steps, "made a serving certificate: "+why)
	}
	return &k, steps, nil
}

// reissue says for which hosts a new serving certificate is to be made, and why;
// not at all when why is empty.
func (p policy) reissue(k *keyring, now time.Time) (hosts []string, why string) {
	has := k.serving.hosts()
	missing := filter(p.hosts, func(host string) bool { return !slices.Contains(has, host) })
	switch {
	case len(missing) > 0:
		// Replicas with other hosts, as during an update, need theirs, too.
		return append(missing, has...), "a host was missing"
	case !bytes.Equal(k.serving.cert.AuthorityKeyId, k.signer.cert.SubjectKeyId):
		return p.hosts, "there is a new certificate authority"
	case k.serving.due(now, p.rotateAt) && k.serving.cert.NotAfter.Before(k.signer.cert.NotAfter):
		return p.hosts, "its time had come"
	case k.serving.expired(now):
		return p.hosts, "it had expired"
	}
	return nil, ""
}

// fresh returns a keyring that has nothing in common with one before.
func (p policy) fresh(now time.Time) (*keyring, error) {
	signer, err := newCA(p.name, now, p.caLifetime)
	if err != nil {
		return nil, err
	}
	serving, err := signer.issue(p.hosts, now, p.lifetime)
	if err != nil {
		return nil, err
	}
	return &keyring{signer: signer, serving: serving}, nil
}

// filter returns the elements that keep keeps, in a slice of its own.
func filter[T any](in []T, keep func(T) bool) []T {
	var out []T
	for _, one := range in {
		if keep(one) {
			out = append(out, one)
		}
	}
	return out
}
