package reload

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/client"
)

// keyField is where a Secret has the key.
const keyField = "key"

// keyring finds the key of the hashes when it is first needed, and keeps it.
type keyring struct {
	client *client.Client
	name   types.NamespacedName
	dryRun bool // makes no Secret
	key    atomic.Pointer[secretKey]
}

// get returns the key. The first replica that needs one makes it.
func (k *keyring) get(ctx context.Context) (secretKey, error) {
	if key := k.key.Load(); key != nil {
		return *key, nil
	}
	b, err := k.find(ctx)
	if err != nil {
		return secretKey{}, fmt.Errorf("the key of the hashes, in Secret %s: %w", k.name, err)
	}
	key := newSecretKey(b)
	if !k.key.CompareAndSwap(nil, &key) {
		return *k.key.Load(), nil
	}
	return key, nil
}

func (k *keyring) find(ctx context.Context) ([]byte, error) {
	secret := &corev1.Secret{}
	err := k.client.Get(ctx, k.name, secret, client.Live) // the cache has only its digest
	if apierrors.IsNotFound(err) {
		secret = &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: k.name.Namespace, Name: k.name.Name},
			Data:       map[string][]byte{keyField: make([]byte, 32)},
		}
		rand.Read(secret.Data[keyField])
		if k.dryRun {
			return secret.Data[keyField], nil
		}
		err = k.client.Create(ctx, secret)
		if apierrors.IsAlreadyExists(err) {
			err = k.client.Get(ctx, k.name, secret, client.Live)
		}
	}
	if err != nil {
		return nil, err
	}
	b := secret.Data[keyField]
	if len(b) < 16 {
		return nil, fmt.Errorf("%q has %d bytes, too few for a key; delete the Secret to get a new one", keyField, len(b))
	}
	return b, nil
}
