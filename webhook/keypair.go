package webhook

import (
	"crypto/ecdsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/keypair"
)

// skew is by how much a certificate is valid before it was made, for API servers
// whose clock is behind.
const skew = 5 * time.Minute

// keyPair is a certificate and its private key.
type keyPair struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// caTemplate says what is true of every certificate of a CA's key. How many CAs
// may follow is left open: those after it are vouched for, one by the other.
func caTemplate(subject pkix.Name, now, notAfter time.Time) *x509.Certificate {
	return &x509.Certificate{
		Subject:               subject,
		NotBefore:             now.Add(-skew),
		NotAfter:              notAfter,
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
}

// newCA returns a certificate authority that signs by itself. Its name has the
// time, so that those who verify need not try all keys of one name.
func newCA(name string, now time.Time, lifetime time.Duration) (keyPair, error) {
	subject := pkix.Name{CommonName: name + " of " + now.UTC().Format(time.RFC3339)}
	pair, err := keyPair{}.sign(caTemplate(subject, now, now.Add(lifetime)))
	if err != nil {
		return keyPair{}, fmt.Errorf("make a certificate authority: %w", err)
	}
	return pair, nil
}

// vouch returns a certificate by which whoever trusts ca trusts next, too, until
// one of them expires.
func (ca keyPair) vouch(next *x509.Certificate, now time.Time) (*x509.Certificate, error) {
	notAfter := next.NotAfter
	if notAfter.After(ca.cert.NotAfter) {
		notAfter = ca.cert.NotAfter
	}
	template := caTemplate(next.Subject, now, notAfter)
	template.SubjectKeyId = next.SubjectKeyId
	key, ok := next.PublicKey.(*ecdsa.PublicKey)
	if !ok {
		return nil, fmt.Errorf("the key of %v is a %T", next.Subject, next.PublicKey)
	}
	cert, err := keypair.Sign(template, key, ca.cert, ca.key)
	if err != nil {
		return nil, fmt.Errorf("vouch for %v: %w", next.Subject, err)
	}
	return cert, nil
}

// issue returns a serving certificate for hosts that ca signed. It does not
// outlive ca.
func (ca keyPair) issue(hosts []string, now time.Time, lifetime time.Duration) (keyPair, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: hosts[0]},
		NotBefore:             now.Add(-skew),
		NotAfter:              now.Add(lifetime),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	if template.NotAfter.After(ca.cert.NotAfter) {
		template.NotAfter = ca.cert.NotAfter
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	pair, err := ca.sign(template)
	if err != nil {
		return keyPair{}, fmt.Errorf("make a serving certificate: %w", err)
	}
	return pair, nil
}

// sign makes a key and a certificate for it. The zero keyPair makes one that
// signs itself.
func (ca keyPair) sign(template *x509.Certificate) (keyPair, error) {
	cert, key, err := keypair.New(template, ca.cert, ca.key)
	return keyPair{cert, key}, err
}

// expired reports whether the certificate is of no use any more.
func (p keyPair) expired(now time.Time) bool { return !now.Before(p.cert.NotAfter) }

// due reports whether the share at of the certificate's life is over.
func (p keyPair) due(now time.Time, at float64) bool {
	made := p.cert.NotBefore.Add(skew)
	life := p.cert.NotAfter.Sub(made)
	return !now.Before(made.Add(time.Duration(at * float64(life))))
}

// hosts returns what a serving certificate is for, sorted.
func (p keyPair) hosts() []string {
	hosts := slices.Clone(p.cert.DNSNames)
	for _, ip := range p.cert.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	slices.Sort(hosts)
	return hosts
}

func encodeCerts(certs ...*x509.Certificate) []byte {
	var out []byte
	for _, cert := range certs {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})...)
	}
	return out
}

func decodeCerts(data []byte) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		certs = append(certs, cert)
	}
	if len(certs) == 0 {
		return nil, errors.New("no certificate in PEM")
	}
	return certs, nil
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a private key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// decodePair decodes a certificate with its key, checks that they fit, and
// returns the certificates after it, too.
func decodePair(certs, key []byte) (keyPair, []*x509.Certificate, error) {
	chain, err := decodeCerts(certs)
	if err != nil {
		return keyPair{}, nil, err
	}
	block, _ := pem.Decode(key)
	if block == nil {
		return keyPair{}, nil, errors.New("no private key in PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return keyPair{}, nil, err
	}
	private, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || !private.PublicKey.Equal(chain[0].PublicKey) {
		return keyPair{}, nil, errors.New("the private key is not that of the certificate")
	}
	return keyPair{chain[0], private}, chain[1:], nil
}
