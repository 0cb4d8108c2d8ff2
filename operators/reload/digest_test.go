package reload

import (
	"bytes"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func digest(t *testing.T, obj runtime.Object) string {
	t.Helper()
	d, err := digestOf(obj)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestReloadFault6AllContentCounts(t *testing.T) {
	config := &corev1.ConfigMap{Data: map[string]string{"a": "1", "b": "2"}}
	for why, other := range map[string]*corev1.ConfigMap{
		"another value":                   {Data: map[string]string{"a": "1", "b": "3"}},
		"a key more":                      {Data: map[string]string{"a": "1", "b": "2", "c": ""}},
		"a key less":                      {Data: map[string]string{"a": "1"}},
		"binary data":                     {Data: map[string]string{"a": "1", "b": "2"}, BinaryData: map[string][]byte{"c": {0}}},
		"the same characters in all":      {Data: map[string]string{"a": "1b2"}},
		"the same characters in all, too": {Data: map[string]string{"a1": "", "b": "2"}},
		"none":                            {},
	} {
		if digest(t, config) == digest(t, other) {
			t.Errorf("%s makes no difference", why)
		}
	}
	for why, same := range map[string]*corev1.ConfigMap{
		"metadata":        {ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7", Labels: map[string]string{"a": "b"}}, Data: config.Data},
		"immutable":       {Immutable: new(true), Data: config.Data},
		"where it stands": {Data: map[string]string{"a": "1"}, BinaryData: map[string][]byte{"b": []byte("2")}},
	} {
		if digest(t, config) != digest(t, same) {
			t.Errorf("%s makes a difference", why)
		}
	}
	if digest(t, &corev1.Secret{Data: map[string][]byte{"a": {1}}}) == digest(t, &corev1.Secret{Data: map[string][]byte{"a": {2}}}) {
		t.Error("a Secret's content makes no difference")
	}
	if _, err := digestOf(&corev1.Pod{}); err == nil {
		t.Error("a Pod has a digest")
	}
}

func TestNoContentIsKept(t *testing.T) {
	const content = "correct horse battery staple"
	meta := metav1.ObjectMeta{Name: "app", Annotations: map[string]string{
		corev1.LastAppliedConfigAnnotation: content, reloaderMatch: "true", digestAnnotation: "forged",
	}}
	for _, obj := range []runtime.Object{
		&corev1.Secret{ObjectMeta: *meta.DeepCopy(), Data: map[string][]byte{"password": []byte(content)}},
		&corev1.ConfigMap{ObjectMeta: *meta.DeepCopy(), Data: map[string]string{"a": content}, BinaryData: map[string][]byte{"b": []byte(content)}},
	} {
		want := digest(t, obj)
		if err := keepDigest(obj); err != nil {
			t.Fatal(err)
		}
		data, err := obj.(interface{ Marshal() ([]byte, error) }).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte(content)) {
			t.Errorf("%T: content is kept", obj)
		}
		annotations := obj.(metav1.Object).GetAnnotations()
		if annotations[digestAnnotation] != want || annotations[reloaderMatch] != "true" || len(annotations) != 2 {
			t.Errorf("%T: kept %v", obj, annotations)
		}
	}
}

func TestHashesTellNothing(t *testing.T) {
	one, other := newSecretKey([]byte("one")), newSecretKey([]byte("other"))
	secret := source{kindSecret, "app"}
	hash := one.of("default", secret, "digest")
	for why, h := range map[string]string{
		"another key":       other.of("default", secret, "digest"),
		"another namespace": one.of("prod", secret, "digest"),
		"another name":      one.of("default", source{kindSecret, "b"}, "digest"),
		"another kind":      one.of("default", cm("app"), "digest"),
		"another digest":    one.of("default", secret, "tsegid"),
	} {
		if h == hash {
			t.Errorf("%s makes no difference", why)
		}
	}
	if one.id == other.id || hash != one.of("default", secret, "digest") {
		t.Error("a key is not what it was, or is like another")
	}
}
