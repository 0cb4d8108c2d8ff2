package reload

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// keepDigest is the cache's transform of sources: it replaces the content by its digest. Of the annotations it keeps
// those that are read; kubectl's last-applied-configuration holds the content, too.
func keepDigest(obj runtime.Object) error {
	digest, err := digestOf(obj)
	if err != nil {
		return err
	}
	var meta *metav1.ObjectMeta
	switch o := obj.(type) {
	case *corev1.ConfigMap:
		meta, o.Data, o.BinaryData = &o.ObjectMeta, nil, nil
	case *corev1.Secret:
		meta, o.Data, o.StringData = &o.ObjectMeta, nil, nil
	}
	kept := map[string]string{digestAnnotation: digest}
	for _, key := range []string{Match, Ignore, reloaderMatch, reloaderIgnore} {
		if value, ok := meta.Annotations[key]; ok {
			kept[key] = value
		}
	}
	meta.Annotations = kept
	return nil
}

// digestOf returns the digest of a source's content: of the bytes under each key, wherever they are kept.
func digestOf(obj runtime.Object) (string, error) {
	content := map[string][]byte{}
	switch o := obj.(type) {
	case *corev1.ConfigMap:
		maps.Copy(content, o.BinaryData)
		for key, text := range o.Data {
			content[key] = []byte(text)
		}
	case *corev1.Secret:
		content = o.Data
	default:
		return "", fmt.Errorf("%T is neither a ConfigMap nor a Secret", obj)
	}
	h := sha256.New()
	part := func(b []byte) {
		h.Write(binary.AppendUvarint(nil, uint64(len(b))))
		h.Write(b)
	}
	for _, key := range slices.Sorted(maps.Keys(content)) {
		part([]byte(key))
		part(content[key])
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)), nil
}

// secretKey makes of digests what may be shown on workloads: whoever may read these, but not Secrets, cannot try out
// what content a hash belongs to. The zero value is no key.
type secretKey struct {
	id    string // tells keys apart without giving them away
	bytes []byte
}

func newSecretKey(b []byte) secretKey {
	k := secretKey{bytes: b}
	k.id = k.hash("id")[:6]
	return k
}

// hash returns the keyed hash of some words: 16 characters.
func (k secretKey) hash(words ...string) string {
	mac := hmac.New(sha256.New, k.bytes)
	for _, w := range words {
		mac.Write(binary.AppendUvarint(nil, uint64(len(w))))
		mac.Write([]byte(w))
	}
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:12])
}

// of returns the hash of a source with that digest in a namespace.
func (k secretKey) of(namespace string, s source, digest string) string {
	return k.hash(namespace, s.kind, s.name, digest)
}
