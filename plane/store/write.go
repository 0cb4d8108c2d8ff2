package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// Create implements storage.Interface.
func (r *resource) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	key, err := r.key(key, false)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if version, err := r.versioner.ObjectResourceVersion(obj); err == nil && version != 0 {
		return storage.ErrResourceVersionSetOnCreate
	}
	data, err := r.encode(obj)
	if err != nil {
		return err
	}
	sealed, err := r.seal(ctx, key, data)
	if err != nil {
		return err
	}
	revision, err := r.store.write(key, 0, &record{data: sealed, expires: expiryOf(ttl)}, false)
	if errors.Is(err, errStale) {
		return storage.NewKeyExistsError(key, 0)
	}
	if err != nil || out == nil {
		return err
	}
	return r.decodeInto(data, out, revision)
}

// expiryOf returns when an object written now with a time to live in seconds expires.
func expiryOf(ttl uint64) time.Time {
	if ttl == 0 {
		return time.Time{}
	}
	return time.Now().Add(time.Duration(ttl) * time.Second)
}

// existing is an object as a write found it.
type existing struct {
	obj      runtime.Object // nil: it cannot be decoded, which is what the caller expects
	data     []byte         // encoded, not encrypted
	revision uint64         // 0: there is none, obj is empty
	expires  time.Time
	stale    bool // should be written even when nothing changes, to encrypt it anew
	// suggested means that the object comes from the caller and may be older than what is stored.
	suggested bool
}

func (x existing) meta() storage.ResponseMeta {
	m := storage.ResponseMeta{ResourceVersion: x.revision}
	if !x.expires.IsZero() {
		// Rounded up, so that it is not 0, "forever", as long as the object exists.
		m.TTL = max(1, int64((time.Until(x.expires)+time.Second-1)/time.Second))
	}
	return m
}

// find returns the caller's suggestion or, without one, what is stored.
func (r *resource) find(ctx context.Context, key string, like, suggestion runtime.Object, ignoreNotFound bool) (existing, error) {
	if suggestion == nil {
		return r.load(ctx, key, like, ignoreNotFound)
	}
	revision, err := r.versioner.ObjectResourceVersion(suggestion)
	if err != nil {
		return existing{}, fmt.Errorf("resourceVersion of the cached object at %s: %w", key, err)
	}
	if revision == 0 {
		return r.load(ctx, key, like, ignoreNotFound)
	}
	data, err := r.encode(suggestion)
	if err != nil {
		return existing{}, err
	}
	if err := r.versioner.UpdateObject(suggestion, revision); err != nil { // encode has cleared it
		return existing{}, err
	}
	return existing{obj: suggestion, data: data, revision: revision, suggested: true}, nil
}

// load returns what is stored, decoded into a new object of like's type.
func (r *resource) load(ctx context.Context, key string, like runtime.Object, ignoreNotFound bool) (existing, error) {
	x := existing{obj: emptyLike(like)}
	rec, revision, ok := r.store.table.Snapshot().Get(key)
	if !ok {
		if !ignoreNotFound {
			return existing{}, storage.NewKeyNotFoundError(key, 0)
		}
		return x, runtime.SetZeroValue(x.obj)
	}
	x.revision, x.expires = revision, rec.expires
	var err error
	if x.data, x.stale, err = r.open(ctx, key, rec.data); err != nil {
		return existing{}, err
	}
	return x, r.decodeInto(x.data, x.obj, revision)
}

// loadUndecodable is load for an object that is expected not to be decodable; it fails when it is.
func (r *resource) loadUndecodable(ctx context.Context, key string, like runtime.Object) (existing, error) {
	rec, revision, ok := r.store.table.Snapshot().Get(key)
	if !ok {
		return existing{}, storage.NewKeyNotFoundError(key, 0)
	}
	if _, err := r.decode(ctx, key, rec.data, revision, emptyLike(like)); err == nil {
		return existing{}, storage.NewInvalidObjError(key, "unsafe deletion is not allowed: the stored object can be decoded")
	}
	return existing{revision: revision}, nil
}

func emptyLike(obj runtime.Object) runtime.Object {
	if u, ok := obj.(runtime.Unstructured); ok {
		return u.NewEmptyInstance()
	}
	return reflect.New(reflect.TypeOf(obj).Elem()).Interface().(runtime.Object)
}

// GuaranteedUpdate implements storage.Interface. An update that gives no new TTL keeps the time at which the object expires.
func (r *resource) GuaranteedUpdate(
	ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, cachedExistingObject runtime.Object,
) error {
	key, err := r.key(key, false)
	if err != nil {
		return err
	}
	if _, err := conversion.EnforcePtr(destination); err != nil {
		return fmt.Errorf("update %s into %T: %w", key, destination, err)
	}
	load := func() (existing, error) { return r.load(ctx, key, destination, ignoreNotFound) }
	x, err := r.find(ctx, key, destination, cachedExistingObject, ignoreNotFound)
	for err == nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		var updated runtime.Object
		var ttl *uint64
		refused := preconditions.Check(key, x.obj)
		if refused == nil {
			updated, ttl, refused = tryUpdate(x.obj, x.meta())
		}
		if refused != nil {
			x, err = whenOutdated(x, refused, load)
			continue
		}
		data, encodeErr := r.encode(updated)
		if encodeErr != nil {
			return encodeErr
		}
		if bytes.Equal(data, x.data) && !x.stale {
			if x.suggested {
				// Only what is stored can tell that nothing changes.
				if x, err = load(); err != nil || !bytes.Equal(data, x.data) {
					continue
				}
			}
			if !x.stale {
				return r.decodeInto(x.data, destination, x.revision)
			}
		}
		revision, writeErr := r.replace(ctx, key, x, data, ttl)
		if errors.Is(writeErr, errStale) {
			x, err = load()
			continue
		}
		if writeErr != nil {
			return writeErr
		}
		return r.decodeInto(data, destination, revision)
	}
	return err
}

// replace writes data in the place of x. Without a ttl it expires when x does.
func (r *resource) replace(ctx context.Context, key string, x existing, data []byte, ttl *uint64) (revision uint64, err error) {
	sealed, err := r.seal(ctx, key, data)
	if err != nil {
		return 0, err
	}
	next := &record{data: sealed}
	if ttl != nil {
		next.expires = expiryOf(*ttl)
	}
	return r.store.write(key, x.revision, next, ttl == nil)
}

// whenOutdated is for a refusal on the ground of x: it returns what is stored, to try again with that, if x was only
// suggested and is outdated, else the refusal.
func whenOutdated(x existing, refusal error, load func() (existing, error)) (existing, error) {
	if !x.suggested {
		return x, refusal
	}
	stored, err := load()
	if err == nil && stored.revision == x.revision {
		err = refusal
	}
	return stored, err
}

// Delete implements storage.Interface.
func (r *resource) Delete(
	ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validateDeletion storage.ValidateObjectFunc, cachedExistingObject runtime.Object, opts storage.DeleteOptions,
) error {
	key, err := r.key(key, false)
	if err != nil {
		return err
	}
	if _, err := conversion.EnforcePtr(out); err != nil {
		return fmt.Errorf("delete %s into %T: %w", key, out, err)
	}
	load := func() (existing, error) { return r.load(ctx, key, out, false) }
	if opts.ExpectTransformOrDecodeError {
		load = func() (existing, error) { return r.loadUndecodable(ctx, key, out) }
		cachedExistingObject = nil
	}
	var x existing
	if cachedExistingObject == nil {
		x, err = load()
	} else {
		x, err = r.find(ctx, key, out, cachedExistingObject, false)
	}
	for err == nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		refused := preconditions.Check(key, x.obj)
		if refused == nil {
			refused = validateDeletion(ctx, x.obj)
		}
		if refused != nil {
			x, err = whenOutdated(x, refused, load)
			continue
		}
		revision, writeErr := r.store.write(key, x.revision, nil, false)
		if errors.Is(writeErr, errStale) {
			x, err = load()
			continue
		}
		if writeErr != nil || x.obj == nil {
			return writeErr
		}
		return r.decodeInto(x.data, out, revision)
	}
	return err
}
