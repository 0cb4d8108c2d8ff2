package webhook

import (
	"bytes"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// The keys of the Secret. The first three are those of any Secret with a
// certificate; whoever can read it can sign for the targets' CA.
const (
	keyCert       = corev1.TLSCertKey
	keyPrivate    = corev1.TLSPrivateKeyKey
	keyBundle     = "ca.crt" // the CA that signs, the next one if there is one, old ones
	keyCA         = "ca.key"
	keyNext       = "next.crt"
	keyNextSigner = "next.key"
)

// encode returns the data of a Secret.
func (k *keyring) encode() (map[string][]byte, error) {
	data := map[string][]byte{keyCert: encodeCerts(k.serving.cert), keyBundle: k.bundle()}
	var err error
	if data[keyPrivate], err = encodeKey(k.serving.key); err != nil {
		return nil, err
	}
	if data[keyCA], err = encodeKey(k.signer.key); err != nil {
		return nil, err
	}
	if k.next != nil {
		data[keyNext] = encodeCerts(k.next.cert)
		if data[keyNextSigner], err = encodeKey(k.next.key); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// decodeKeyring reads the data of a Secret. No data at all is no keyring; data
// that an Authority did not write is an error, so that nobody's is overwritten.
func decodeKeyring(data map[string][]byte) (*keyring, error) {
	if empty(data) {
		return nil, nil
	}
	if len(data[keyCA]) == 0 {
		return nil, fmt.Errorf("it has no %q: it is not one that a webhook Authority made", keyCA)
	}
	var k keyring
	var err error
	if k.signer, err = decodePair(data[keyBundle], data[keyCA]); err != nil {
		return nil, fmt.Errorf("%s and %s: %w", keyBundle, keyCA, err)
	}
	if k.serving, err = decodePair(data[keyCert], data[keyPrivate]); err != nil {
		return nil, fmt.Errorf("%s and %s: %w", keyCert, keyPrivate, err)
	}
	if len(data[keyNext]) > 0 {
		next, err := decodePair(data[keyNext], data[keyNextSigner])
		if err != nil {
			return nil, fmt.Errorf("%s and %s: %w", keyNext, keyNextSigner, err)
		}
		k.next = &next
	}
	bundle, err := decodeCerts(data[keyBundle])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", keyBundle, err)
	}
	for _, cert := range bundle[1:] {
		if k.next == nil || !cert.Equal(k.next.cert) {
			k.old = append(k.old, cert)
		}
	}
	if !bytes.Equal(k.bundle(), data[keyBundle]) {
		return nil, fmt.Errorf("%s does not hold the certificate authorities in the order in which they were written", keyBundle)
	}
	return &k, nil
}

func empty(data map[string][]byte) bool {
	for _, value := range data {
		if len(value) > 0 {
			return false
		}
	}
	return true
}
