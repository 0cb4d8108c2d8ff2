package webhook

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// The keys of the Secret. The first three are those of any Secret with a
// certificate; whoever can read it can sign for the targets' CA.
const (
	keyCert    = corev1.TLSCertKey       // the serving certificate and what is sent along with it
	keyPrivate = corev1.TLSPrivateKeyKey // of the serving certificate
	keyBundle  = "ca.crt"                // the CA that signs, and old ones
	keyCA      = "ca.key"                // of the CA that signs
)

// encode returns the data of a Secret.
func (k *keyring) encode() (map[string][]byte, error) {
	private, err := encodeKey(k.serving.key)
	if err != nil {
		return nil, err
	}
	ca, err := encodeKey(k.signer.key)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{keyCert: encodeCerts(k.chain()...), keyPrivate: private, keyBundle: k.bundle(), keyCA: ca}, nil
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
	if k.signer, k.old, err = decodePair(data[keyBundle], data[keyCA]); err != nil {
		return nil, fmt.Errorf("%s and %s: %w", keyBundle, keyCA, err)
	}
	if k.serving, k.bridges, err = decodePair(data[keyCert], data[keyPrivate]); err != nil {
		return nil, fmt.Errorf("%s and %s: %w", keyCert, keyPrivate, err)
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
