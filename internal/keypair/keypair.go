// Package keypair makes private keys and the certificates for them. Keys come
// from the system's randomness, never from a seed.
package keypair

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"math/big"
)

// New makes a key, and a certificate for it as Sign does. It is signed by the key
// signer of parent or, when parent is nil, by the new key itself.
func New(template, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if parent == nil {
		parent, signer = template, key
	}
	cert, err := Sign(template, &key.PublicKey, parent, signer)
	return cert, key, err
}

// Sign makes a certificate for a key that says what template says and has a
// random serial number, signed by the key signer of parent.
func Sign(template *x509.Certificate, key *ecdsa.PublicKey, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key, signer)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}
